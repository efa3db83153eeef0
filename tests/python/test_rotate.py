# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every call of a rope against its definition in float64."""

import copy
import pickle

import numpy as np
import pytest
from definition import rotated, values

import rotary

TOLERANCE = {np.float64: 1e-14, np.float32: 5e-7, np.float16: 1e-3}


def make(**options):
    return rotary.Rope(**{"head_dim": 32, "theta": 1e4, "pairing": "half", **options})


ROPES = {
    "half": make(),
    "interleaved": make(pairing="interleaved"),
    "partial": make(rotary_dim=16, rotary_offset=8),
    "writes the other pairing": make(pairing="interleaved", output_pairing="half"),
    "yarn": make(scaling=rotary.Yarn(factor=4, original_context=64)),
    "backward": make(direction="backward"),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("name", ROPES)
def test_calls_match_the_definition(name, dtype):
    rope, x = ROPES[name], values(9, 3, 32, dtype=dtype)
    at = np.arange(100, 109)
    close = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
    given = x.copy()

    result = rope.rotate(x, positions=100)
    assert result.dtype == x.dtype
    assert result.shape == x.shape
    np.testing.assert_allclose(result, rotated(x, rope, at), **close)
    np.testing.assert_allclose(
        rope.unrotate(x, positions=100), rotated(x, rope, at, power=-1), **close
    )
    np.testing.assert_allclose(
        rope.adjoint(x, positions=100), rotated(x, rope, at, conjugate=True), **close
    )
    np.testing.assert_array_equal(x, given)  # nothing wrote to it

    for call in ("rotate", "unrotate", "adjoint"):
        y = x.copy()
        assert getattr(rope, call + "_")(y, positions=100) is y
        np.testing.assert_array_equal(y, getattr(rope, call)(x, positions=100))


def test_several_tensors_of_a_call():
    rope = ROPES["half"]
    q, k, v = values(2, 5, 4, 32), values(2, 5, 1, 32), values(2, 5, 2, 32, dtype=np.float16)
    results = rope.rotate(q, k, v, positions=3)
    assert isinstance(results, tuple)
    for x, result in zip((q, k, v), results):
        np.testing.assert_array_equal(result, rope.rotate(x, positions=3))
    given = (q.copy(), k.copy())
    in_place = rope.rotate_(*given)
    assert in_place[0] is given[0] and in_place[1] is given[1]
    np.testing.assert_array_equal(given[1], rope.rotate(k))


def test_out():
    rope, x = ROPES["half"], values(5, 2, 32)
    out, other = np.empty_like(x), np.empty_like(x)
    assert rope.rotate(x, out=out) is out
    np.testing.assert_array_equal(out, rope.rotate(x))
    y, more = values(5, 1, 32), np.empty((5, 1, 32), np.float32)
    results = rope.rotate(x, y, out=(other, more))
    assert results[0] is other and results[1] is more
    np.testing.assert_array_equal(more, rope.rotate(y))
    with pytest.raises(
        ValueError, match=r"^\[rotate\] there must be one out a tensor, got 1 for 2$"
    ):
        rope.rotate(x, y, out=other)


def test_shift_moves_keys_without_scale():
    rope = ROPES["yarn"]
    k = values(6, 2, 32)
    moved = rope.shift(rope.rotate(k, positions=50), delta=-20)
    np.testing.assert_allclose(moved, rope.rotate(k, positions=30), atol=1e-6)
    batch = np.stack([k, k])
    moved = rope.shift(rope.rotate(batch, positions=50), delta=rotary.at([-20, 7]))
    np.testing.assert_allclose(moved[1], rope.rotate(k, positions=57), atol=1e-6)
    each = np.arange(6)
    moved = rope.shift_(rope.rotate(k, positions=50), delta=each)
    np.testing.assert_allclose(moved, rope.rotate(k, positions=50 + 2 * each), atol=1e-6)


def test_rerotate_changes_the_recipe():
    a, b = ROPES["half"], ROPES["yarn"]
    k = values(6, 2, 32)
    changed = a.rerotate(a.rotate(k, positions=1000), to=b, positions=1000)
    np.testing.assert_allclose(changed, b.rotate(k, positions=1000), atol=1e-6)
    y = a.rotate(k, positions=1000)
    assert a.rerotate_(y, to=b, positions=1000) is y
    np.testing.assert_array_equal(y, changed)


def test_any_strides():
    rope = ROPES["half"]
    x = values(2, 4, 7, 64)[..., ::2].transpose(0, 2, 1, 3)  # heads before tokens, every other one
    np.testing.assert_array_equal(rope.rotate(x), rope.rotate(np.ascontiguousarray(x)))
    y = x.copy(order="K")
    rope.rotate_(y[:, ::-1], positions=-5)
    np.testing.assert_array_equal(y[:, ::-1], rope.rotate(x[:, ::-1].copy(), positions=-5))
    heads_first = values(2, 4, 7, 32).transpose(0, 2, 1, 3)
    assert rope.rotate(heads_first).strides == heads_first.strides


def test_large_results_are_aligned():
    x = values(300, 4, 32)
    assert ROPES["half"].rotate(x).ctypes.data % 64 == 0


def test_angles_are_exact_at_large_positions():
    rope = make(theta=5e5)
    far = 2**31 + 12345
    cos, sin = rope.cos_sin([far])
    frequencies = [float(f) for f in rope.frequencies.values[:, 0]]
    import decimal  # the product has more digits than float64 holds

    decimal.getcontext().prec = 60
    two_pi = 2 * decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    phase = [float(decimal.Decimal(f) * far % two_pi) for f in frequencies]
    np.testing.assert_allclose(cos[0], np.cos(phase), atol=1.1e-7)
    np.testing.assert_allclose(sin[0], np.sin(phase), atol=1.1e-7)


def test_cos_sin_is_what_rotate_uses():
    rope = ROPES["yarn"]
    cos, sin = rope.cos_sin(range(3, 8), dtype="float64")
    assert cos.shape == sin.shape == (5, 16)
    assert cos.dtype == np.float64
    angles = np.outer(np.arange(3, 8), rope.frequencies.values[:, 0])
    np.testing.assert_allclose(cos, rope.frequencies.scale * np.cos(angles), atol=1e-14)
    np.testing.assert_allclose(sin, rope.frequencies.scale * np.sin(angles), atol=1e-14)
    assert rope.cos_sin(tokens=4)[0].shape == (4, 16)
    assert rope.cos_sin(rotary.ranges([0, 9]), tokens=4)[0].shape == (2, 4, 16)
    assert rope.cos_sin(range(3), dtype="float16")[1].dtype == np.float16


def test_a_cache_and_threads_change_no_bit():
    x = values(2000, 8, 32)
    expected = make().rotate(x, positions=5)
    for options in (
        {"threads": 1},
        {"threads": 3},
        {"cache": rotary.Cache("all", 1000)},
        {"cache": rotary.Cache("hybrid", 4000)},
    ):
        rope = make(**options)
        np.testing.assert_array_equal(rope.rotate(x, positions=5), expected)
        np.testing.assert_array_equal(rope.with_threads(2).rotate(x, positions=5), expected)


def test_reference_precision_is_that_of_transformers():
    rope = make(precision="reference")
    x = np.zeros((1, 1, 32), np.float32)
    x[..., :16] = 1
    f32 = rope.frequencies.values[:, 0].astype(np.float32)
    angle = np.float32(131_072) * f32
    cos = rope.rotate(x, positions=131_072)[0, 0, :16]
    np.testing.assert_allclose(cos, np.cos(angle.astype(np.float64)), atol=1e-6)


def test_a_rope_is_a_value():
    rope = make(scaling=rotary.Yarn(factor=4, original_context=64), cache=rotary.Cache("all", 8))
    for same in (pickle.loads(pickle.dumps(rope)), copy.deepcopy(rope)):
        assert same == rope
        assert hash(same) == hash(rope)
        assert same.cache == rope.cache
        x = values(3, 1, 32)
        np.testing.assert_array_equal(same.rotate(x), rope.rotate(x))
    assert rope != make()
    assert rope != "a rope"
    assert repr(rope) == "Rope(head_dim=32, rotary_dim=32, pairing='half', scale=1.13863)"


def test_frequencies_are_read_only():
    f = make().frequencies
    assert (f.pairs, f.axes, f.rotary_dim, f.scale, f.growth) == (16, 1, 32, 1.0, None)
    np.testing.assert_allclose(f.values[:, 0], 1e4 ** -(np.arange(16) / 16), rtol=1e-15)
    with pytest.raises(ValueError, match="read-only"):
        f.values[0, 0] = 2.0
    again = rotary.Rope.from_frequencies(f.values[:, 0], layout=make().layout)
    assert again == make()


def test_xpos_grows_queries_and_shrinks_keys():
    rope = make(scaling=rotary.Xpos())
    q, k = values(8, 1, 32), values(8, 1, 32, seed=8)
    keys = rope.with_inverse_growth()
    near = np.sum(rope.rotate(q, positions=100) * keys.rotate(k, positions=90), -1)
    far = np.sum(rope.rotate(q, positions=500) * keys.rotate(k, positions=490), -1)
    np.testing.assert_allclose(near, far, rtol=1e-4)
    assert rope.frequencies.growth.shape == (16, 1)
    np.testing.assert_array_equal(keys.frequencies.growth, -rope.frequencies.growth)


def test_empty_tensors():
    assert ROPES["half"].rotate(np.empty((0, 4, 32), np.float32)).shape == (0, 4, 32)
