# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Analysis of a rotation: the library's values against formulas in NumPy."""

import sys

import numpy as np
import pytest

import rotary

M = np.arange(300)
F = 10000.0 ** (-np.arange(32) / 32)
ROPE = rotary.Rope(head_dim=64, theta=1e4, pairing="half")


def test_scores_and_decay():
    np.testing.assert_allclose(
        rotary.relative_scores(ROPE, M), np.cos(np.outer(M, F)).mean(1), atol=1e-12
    )
    sums = np.abs(np.cumsum(np.exp(1j * np.outer(M, F)), axis=1)).mean(1)
    np.testing.assert_allclose(rotary.decay(ROPE, M), sums, rtol=1e-12)
    assert rotary.decay(ROPE).shape == (257,)
    weights = np.linspace(0, 1, 32)
    np.testing.assert_allclose(
        rotary.relative_scores(ROPE, M, weights), np.cos(np.outer(M, F)) @ weights, atol=1e-11
    )


def test_xpos_has_its_growth():
    xpos = rotary.Rope(head_dim=64, theta=1e4, pairing="half", scaling=rotary.Xpos())
    zeta = (np.arange(32) / 32 + 0.4) / 1.4
    expected = (zeta ** (M[:, None] / 512) * np.cos(np.outer(M, F))).mean(1)
    np.testing.assert_allclose(rotary.relative_scores(xpos, M), expected, atol=1e-12)
    assert rotary.decay(xpos, M)[-1] < rotary.decay(ROPE, M)[-1]


def test_bounds():
    rope = rotary.Rope(head_dim=128, theta=1e4, pairing="half")
    assert rotary.critical_dim(rope, 4096) == 92
    assert rotary.negative_distance(rope, 4096) == 1707
    bound = rotary.smallest_base(rotary.Recipe(rotary_dim=128, theta=1e4), 1024)
    assert bound.base == pytest.approx(4293.43757, rel=1e-8) and bound.interval_proof
    assert bound.lower < bound.base and bound.undecided == []
    served = rotary.Rope(head_dim=128, theta=bound.base, pairing="half")
    assert rotary.negative_distance(served, 1024) is None
    np.testing.assert_allclose(
        rotary.turns(rope, 4096), 4096 * 10000.0 ** (-np.arange(64) / 64) / (2 * np.pi)
    )


def test_plane_keeps_the_variance_of_its_axes():
    plane = rotary.position_plane(ROPE, M)
    vectors = np.hstack([np.cos(np.outer(M, F)), np.sin(np.outer(M, F))])
    vectors -= vectors.mean(0)
    variances = np.linalg.svd(vectors, compute_uv=False)[:2] ** 2
    np.testing.assert_allclose((plane**2).sum(0), variances, rtol=1e-6)


def test_tsne_keeps_neighbours():
    from sklearn import manifold

    rope = rotary.Rope(head_dim=64, theta=100.0, pairing="half")
    m = np.arange(96)
    plane = rotary.position_plane(rope, m, method="tsne")
    angles = np.outer(m, rope.frequencies.values[:, 0])
    vectors = np.hstack([np.cos(angles), np.sin(angles)])
    assert plane.shape == (96, 2)
    assert manifold.trustworthiness(vectors, plane, n_neighbors=5) > 0.95
    np.testing.assert_array_equal(plane, rotary.position_plane(rope, m, method="tsne", seed=0))


def test_tsne_rejects(monkeypatch):
    with pytest.raises(ValueError, match="method must be pca or tsne, got 'umap'"):
        rotary.position_plane(ROPE, M, method="umap")
    with pytest.raises(ValueError, match="at least 3 positions, got 2"):
        rotary.position_plane(ROPE, [0, 1], method="tsne")
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(ImportError, match="needs scikit-learn"):
        rotary.position_plane(ROPE, M, method="tsne")


def test_angle_errors():
    errors = rotary.angle_errors(ROPE, [0, 1000, 131071])
    exact = 131071 * F
    single = (np.float32(131071) * F.astype(np.float32)).astype(np.float64)
    assert errors[0, 0] == 0 and errors[2, 0] == pytest.approx(np.abs(single - exact).max())
    table = rotary.angle_errors(ROPE, [1000], "bfloat16_table")
    assert 2**-11 < table[0, 1] < 2**-8
    with pytest.raises(ValueError, match="method must be"):
        rotary.angle_errors(ROPE, [1], "float8")


def test_rejects():
    with pytest.raises(ValueError, match="must have 1 axes, got 2"):
        rotary.decay(ROPE, [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="weights must be one per pair"):
        rotary.relative_scores(ROPE, M, [1.0])
