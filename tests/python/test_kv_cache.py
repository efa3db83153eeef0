"""Rotation into caches with NumPy: against rotate() and a plain store."""

from typing import Any

import numpy as np
import pytest

import rotary

BLOCKS, SIZE, HEADS, DIM = 4, 4, 2, 16
ROPE = rotary.Rope(head_dim=DIM, theta=1e4, pairing="half")
SLOTS = np.array([3, -1, 9, 0, 15])


def tensors(dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 5, HEADS, DIM)).astype(dtype)


def stored(cache: Any, rows: Any) -> Any:
    result = cache.copy().reshape(BLOCKS * SIZE, HEADS, -1)
    result[SLOTS[SLOTS >= 0]] = rows[SLOTS >= 0]
    return result.reshape(cache.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_same_type(dtype: Any) -> None:
    q, k, v = tensors(dtype)
    keys, values = np.full((2, BLOCKS, SIZE, HEADS, DIM), 85, dtype)
    want = [stored(keys, ROPE.rotate(k, positions=7)), stored(values, v)]
    got = rotary.append_kv(q, k, v, keys, values, SLOTS, rope=ROPE, positions=7)
    np.testing.assert_array_equal(got, ROPE.rotate(q, positions=7))
    np.testing.assert_array_equal(keys, want[0])
    np.testing.assert_array_equal(values, want[1])
    copy = q.copy()
    options = {"rope": ROPE, "positions": 7, "in_place": True}
    assert rotary.append_kv(copy, k, v, keys, values, SLOTS, **options) is copy
    np.testing.assert_array_equal(copy, got)


@pytest.mark.parametrize("rounding", ["tensor", "every_step"])
def test_with_a_norm(rounding: Any) -> None:
    q, k, v = tensors(np.float16)
    weight = np.linspace(0.5, 2, DIM).astype(np.float16)
    keys, values = np.full((2, BLOCKS, SIZE, HEADS, DIM), 85, np.float16)
    norm = rotary.Norm(eps=1e-5, rounding=rounding)
    wanted = ROPE.norm_rotate(q, k, weights=(weight, None), norm=norm, positions=7)
    want = [stored(keys, wanted[1]), stored(values, v)]
    options = {"rope": ROPE, "positions": 7, "norm": norm, "q_weight": weight}
    got = rotary.append_kv(q, k, v, keys, values, SLOTS, **options)
    np.testing.assert_array_equal(got, wanted[0])
    np.testing.assert_array_equal(keys, want[0])
    np.testing.assert_array_equal(values, want[1])
    assert not np.array_equal(got, ROPE.rotate(q, positions=7))


def test_int8_by_pages() -> None:
    q, k, v = tensors()
    keys, values = np.full((2, BLOCKS, SIZE, HEADS, DIM), 85, np.int8)
    scales = np.full((BLOCKS, SIZE, HEADS), 7.5, np.float32)
    table = np.array([[0, 1, 2, 3]], np.int32)
    rotary.append_kv(
        q, k, v, keys, values, SLOTS.astype(np.int32), rope=ROPE, block_table=table,
        key_scales=scales, v_scale=np.array([4.0, 8.0], np.float32), scale_use="multiply",
    )  # fmt: skip
    turned = ROPE.rotate(k)
    factor = (np.float32(127) / np.abs(turned).max(-1)).astype(np.float32)
    np.testing.assert_array_equal(
        stored(np.full_like(scales, 7.5)[..., None], factor[..., None])[..., 0], scales
    )
    want = np.rint(turned * factor[..., None]).astype(np.int8)
    np.testing.assert_array_equal(keys, stored(np.full_like(keys, 85), want))
    want = np.rint(v * np.array([4, 8], np.float32)[:, None]).clip(-128, 127).astype(np.int8)
    np.testing.assert_array_equal(values, stored(np.full_like(values, 85), want))


def test_float8_bytes() -> None:
    """Of uint8 arrays with a type; 0x38 is 1 in e4m3, 0x3c in e5m2."""
    q, k, v = np.ones((3, 5, HEADS, DIM), np.float32)
    for kind, one in (("e4m3", 0x38), ("e5m2", 0x3C)):
        keys, values = np.zeros((2, BLOCKS * SIZE, HEADS, DIM), np.uint8)
        rotary.append_kv(q, k, v, keys, values, SLOTS, rope=ROPE, cache_type=kind)
        assert (values[SLOTS[SLOTS >= 0]] == one).all() and not values[1].any()


def test_norms() -> None:
    """Biases, norms of all heads, after the rotation and the inverse, as norm_rotate() has them."""
    q, k, v = tensors()
    rows = np.random.default_rng(2).normal(size=(4, HEADS * DIM)).astype(np.float32)
    for scope, size in (("head", DIM), ("all_heads", HEADS * DIM)):
        norm = rotary.Norm(kind="layer", scope=scope, order="after", inverse=True)  # type: ignore
        weights, biases = [r[:size].copy() for r in rows[:2]], [r[:size].copy() for r in rows[2:]]
        want_q, want_k = ROPE.norm_rotate(q, k, weights=weights, biases=biases, norm=norm)
        keys, values = np.zeros((2, BLOCKS, SIZE, HEADS, DIM), np.float32)
        got = rotary.append_kv(
            q, k, v, keys, values, SLOTS, rope=ROPE, norm=norm, q_weight=weights[0],
            k_weight=weights[1], q_bias=biases[0], k_bias=biases[1],
        )  # fmt: skip
        np.testing.assert_array_equal(got, want_q)
        np.testing.assert_array_equal(keys, stored(np.zeros_like(keys), want_k))


def test_keys_in_a_cache() -> None:
    other = rotary.Rope(head_dim=DIM, theta=5e5, pairing="half")
    keys = np.random.default_rng(1).normal(size=(BLOCKS, SIZE, HEADS, DIM)).astype(np.float32)
    rows = keys.reshape(BLOCKS * SIZE, HEADS, DIM)[SLOTS]
    want = stored(keys, ROPE.rerotate(ROPE.shift(rows, delta=-9), to=other, positions=5))
    assert rotary.shift_cached_(keys, SLOTS, rope=ROPE, delta=-9) is keys
    rotary.rerotate_cached_(keys, SLOTS, source=ROPE, target=other, positions=5)
    np.testing.assert_array_equal(keys, want)


def test_refuses() -> None:
    q, k, v = tensors()
    keys, values = np.zeros((2, BLOCKS, SIZE, HEADS, DIM), np.float32)
    for slots, options, message in [
        (SLOTS + 1, {}, "slots must be below 16"),
        (SLOTS, {"scale_use": "add"}, "scale_use must be one of divide, multiply, got add"),
        (SLOTS, {"cache_type": "int4"}, "cache_type must be one of auto, e4m3, e5m2, got int4"),
        (SLOTS, {"k_scale": np.ones(1, np.float32)}, "scales are for quantised stores"),
    ]:
        with pytest.raises(ValueError, match=message):
            rotary.append_kv(q, k, v, keys, values, slots, rope=ROPE, **options)
    assert not keys.any() and not values.any()
