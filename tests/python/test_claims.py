# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Statements about RoPE that no other test holds; docs/claims.md lists them all."""

import numpy as np
import pytest

import rotary

GENERATOR = np.random.default_rng(0)


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def matrix_of(rope, *position):
    """The matrix that rotates a head at a position of one or more axes."""
    size = rope.layout.head_dim
    ids = np.repeat(np.asarray(position, np.float64)[:, None], size, axis=1)
    columns = rope.rotate(np.eye(size)[:, None, :], positions=ids if len(position) > 1 else ids[0])
    return columns[:, 0, :].T


def direct_sum(*blocks):
    size = sum(block.shape[0] for block in blocks)
    result, at = np.zeros((size, size)), 0
    for block in blocks:
        end = at + block.shape[0]
        result[at:end, at:end] = block
        at = end
    return result


def axial(axes):
    return rotary.Rope(
        head_dim=2 * axes, theta=100.0, pairing="interleaved", axes=rotary.Axial(axes=axes)
    )


@pytest.mark.parametrize("position", [(3.0, 5.0), (2.0, 7.0, 1.0)])
def test_axial_rope_is_a_direct_sum(position):
    axes = len(position)
    found = matrix_of(axial(axes), *position)
    np.testing.assert_allclose(found, direct_sum(*map(turn, position)), atol=1e-12)
    product = np.eye(1)
    for x in position:
        product = np.kron(product, turn(x))
    assert product.shape[0] == 2**axes  # against 2 * axes: another size from three axes on
    if axes == 2:
        assert np.abs(found - product).max() > 0.1


def test_kronecker_product_turns_by_sum_and_difference():
    a, b = 0.7, 0.4
    product = np.kron(turn(a), turn(b))
    angles = np.sort(np.angle(np.linalg.eigvals(product)))
    np.testing.assert_allclose(angles, np.sort([a + b, a - b, b - a, -a - b]), atol=1e-12)
    # The relative property holds for it, too.
    other = np.kron(turn(1.9), turn(-0.3))
    np.testing.assert_allclose(
        product.T @ other, np.kron(turn(1.9 - a), turn(-0.3 - b)), atol=1e-12
    )


def test_small_index_is_high_frequency():
    for theta in (100.0, 1e4, 1e6):
        values = rotary.make_frequencies(rotary.Recipe(rotary_dim=64, theta=theta)).values[:, 0]
        assert values[0] == 1 and (np.diff(values) < 0).all()
    # The slow pairs, of large index, tell distant tokens apart: the fast ones repeat after 6.28.
    lengths = rotary.wavelengths(rotary.Rope(head_dim=64, theta=1e4, pairing="half"))
    assert lengths[0] == pytest.approx(2 * np.pi) and lengths[-1] > 4e4


def test_decay_is_a_bound_and_not_monotone():
    rope = rotary.Rope(head_dim=128, theta=1e4, pairing="half")
    bound = rotary.decay(rope, np.arange(257))
    assert bound[256] < bound[0] / 3  # it falls on the whole
    assert (np.diff(bound) > 0).sum() > 50  # and rises at many distances
    scores = rotary.relative_scores(rope, np.arange(4097))
    assert (np.diff(scores[:257]) > 0).sum() > 50
    assert scores.min() < 0  # equal vectors score less than random ones at some distances
    # A score can grow with the distance: a key that is the query turned by 40 positions.
    q = np.ones((1, 1, 128))
    key = rope.rotate(q, positions=40)
    assert np.sum(rope.rotate(q, positions=40) * key) > np.sum(rope.rotate(q, positions=0) * key)


def test_cos_and_sin_are_a_hilbert_pair():
    """Of whole periods, sin is the Hilbert transform of cos: half of the spectrum, turned by 90
    degrees. So the pair (cos, sin) is the analytic signal e^(i m f)."""
    n = 512
    for turns in (1, 7, 100):
        m = np.arange(n)
        wave = np.cos(2 * np.pi * turns * m / n)
        spectrum = np.fft.fft(wave)
        spectrum[n // 2 + 1 :] = 0
        spectrum[1 : n // 2] *= 2
        analytic = np.fft.ifft(spectrum)
        np.testing.assert_allclose(analytic.imag, np.sin(2 * np.pi * turns * m / n), atol=1e-12)


class Counted:
    """Matrix products with a count of their multiplications."""

    def __init__(self):
        self.products = 0

    def matmul(self, a, b):
        self.products += a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b


def test_order_of_products_decides_the_cost_of_linear_attention():
    """phi(q) (phi(k)^T v) and (phi(q) phi(k)^T) v are equal; the first is linear in the length."""
    d = 16
    costs = {}
    for n in (64, 128):
        q, k, v = (np.abs(GENERATOR.standard_normal((n, d))) for _ in range(3))
        linear, quadratic = Counted(), Counted()
        first = linear.matmul(q, linear.matmul(k.T, v))
        second = quadratic.matmul(quadratic.matmul(q, k.T), v)
        np.testing.assert_allclose(first, second, rtol=1e-12)
        costs[n] = linear.products, quadratic.products
    assert costs[128][0] == 2 * costs[64][0]
    assert costs[128][1] == 4 * costs[64][1]


def test_interpolation_has_no_unseen_angles_but_changes_every_prompt():
    trained, factor = 4096, 4.0
    plain = rotary.Recipe(rotary_dim=128, theta=1e4)
    linear = rotary.Recipe(rotary_dim=128, theta=1e4, scaling=rotary.Linear(factor=factor))
    before = rotary.make_frequencies(plain).values[:, 0]
    after = rotary.make_frequencies(linear).values[:, 0]
    assert (after * factor * trained <= before * trained * (1 + 1e-12)).all()
    assert (after != before).all()
    # Neighbours come closer: the fastest pair turns by 1 / factor between two tokens.
    assert after[0] == pytest.approx(1 / factor)


def test_memory_of_a_table():
    """cos and sin of L positions: L d numbers, for all heads and layers together."""
    length, dim = 4096, 128
    cos, sin = rotary.Rope(head_dim=dim, theta=1e4, pairing="half").cos_sin(tokens=length)
    assert np.size(cos) + np.size(sin) == length * dim
