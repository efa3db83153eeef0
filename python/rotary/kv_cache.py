# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotation into caches of keys and values, and of keys that are in a cache, on the CPU.

    q = rotary.append_kv(q, k, v, key_cache, value_cache, slots, rope=rope, positions=positions)

Caches are [blocks, block_size, heads, head_dim] or [slots, heads, head_dim], of the type of k and
v, or quantised: int8, the float8_e4m3fn and float8_e5m2 of ml_dtypes and PyTorch, or uint8 with
cache_type="e4m3" or "e5m2". rotary.torch.cache explains slots, block tables and scales.
"""

from __future__ import annotations

from typing import Any

from . import _core
from ._arrays import library_of
from .norm import Norm
from .positions import PositionsLike, distances
from .positions import positions as to_positions
from .rope import Rope

_TYPES = {"e4m3": "float8_e4m3", "e5m2": "float8_e5m2"}
_USES = {"divide": False, "multiply": True}


def _choose(function: str, name: str, value: str, choices: dict[str, Any]) -> Any:
    if value not in choices:
        raise ValueError(f"[{function}] {name} must be one of {', '.join(choices)}, got {value}")
    return choices[value]


def _export(x: Any, write: bool) -> Any:
    return None if x is None else library_of(x).export(x, None, write)


def _stored(
    function: str, data: Any, scale: Any, computed: Any, scale_use: str, cache_type: str
) -> tuple[Any, ...]:
    types = {"auto": None, **_TYPES}
    kind = _choose(function, "cache_type", cache_type, types)
    view = _export(data, True) if kind is None else (_export(data, True), kind)
    use = _choose(function, "scale_use", scale_use, _USES)
    return view, _export(scale, False), _export(computed, True), use


def _slots(*arrays: Any) -> tuple[Any, ...]:
    return tuple(_export(x, False) for x in arrays)


def _after(*arrays: Any) -> None:
    for x in arrays:
        if x is not None:
            library_of(x).after_write(x)


def append_kv(
    q: Any,
    k: Any,
    v: Any,
    key_cache: Any,
    value_cache: Any,
    slots: Any,
    *,
    rope: Rope,
    positions: PositionsLike = None,
    block_table: Any = None,
    sequences: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    key_scales: Any = None,
    value_scales: Any = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
    in_place: bool = False,
    norm: Norm | None = None,
    q_weight: Any = None,
    k_weight: Any = None,
    q_bias: Any = None,
    k_bias: Any = None,
) -> Any:
    """Rotates q, rotates k into key_cache, copies v into value_cache, and returns q: a new array,
    or with in_place=True q itself. With a `norm`, q and k are normalised, too, as norm_rotate()
    does it."""
    if norm is None:
        norm = Norm(kind="none")
    library = library_of(q)
    out = None if in_place else library.empty_like(q)
    how = (scale_use, cache_type)
    _core.append_kv(
        rope._core,
        _export(q, in_place),
        _export(out, True),
        _export(k, False),
        _export(v, False),
        _stored("append_kv", key_cache, k_scale, key_scales, *how),
        _stored("append_kv", value_cache, v_scale, value_scales, *how),
        _slots(slots, block_table, sequences),
        to_positions(positions),
        norm.given(),
        (_export(q_weight, False), _export(k_weight, False)),
        (_export(q_bias, False), _export(k_bias, False)),
    )
    _after(key_cache, value_cache, key_scales, value_scales)
    if in_place:
        _after(q)
        return q
    return library.finish(out)


def shift_cached_(
    keys: Any,
    slots: Any,
    *,
    rope: Rope,
    delta: PositionsLike,
    block_table: Any = None,
    sequences: Any = None,
    scale: Any = None,
    scales: Any = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
) -> Any:
    """Rope.shift_() of the keys in those slots of a cache. Quantised keys are read, rotated in
    float32 and quantised again, by their `scale`, or by new ones that are written to `scales`."""
    store = _stored("shift_cached_", keys, scale, scales, scale_use, cache_type)
    _core.shift_cached(rope._core, store, _slots(slots, block_table, sequences), distances(delta))
    _after(keys, scales)
    return keys


def rerotate_cached_(
    keys: Any,
    slots: Any,
    *,
    source: Rope,
    target: Rope,
    positions: PositionsLike = None,
    block_table: Any = None,
    sequences: Any = None,
    scale: Any = None,
    scales: Any = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
) -> Any:
    """Changes keys of a cache that `source` rotated at `positions` to those of `target`, in place,
    as shift_cached_() does it."""
    store = _stored("rerotate_cached_", keys, scale, scales, scale_use, cache_type)
    at = _slots(slots, block_table, sequences)
    _core.rerotate_cached(source._core, target._core, store, at, to_positions(positions))
    _after(keys, scales)
    return keys
