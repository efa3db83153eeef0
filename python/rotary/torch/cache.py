# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotation into caches of keys and values, and of keys that are in a cache.

    q = rotary.torch.rope_append_kv(q, k, v, key_cache, value_cache, slot_mapping,
                                    rope=text, positions=positions)

Caches are [blocks, block_size, heads, head_dim] or [slots, heads, head_dim] with any strides for
blocks, tokens and heads, of the type of k and v, or quantised: float8_e4m3fn, float8_e5m2, int8, or
uint8 with cache_type="e4m3" or "e5m2".

slot_mapping   int32 or int64, [batch, tokens] or [n] for the first n tokens. Slot s is row
               s % block_size of block s // block_size; -1: not stored, but q is rotated
block_table    [sequences, max_blocks]; slot_mapping is then the index of each token in its
               sequence: the batch row, or sequences[token]
scales         k_scale, v_scale: float32 [1] or [heads], in the memory of the device, by which
               scale_use="divide" divides and "multiply" multiplies; or key_scales, value_scales:
               float32 caches [blocks, block_size, heads] (or [.., heads, groups]) of scales that
               the call computes
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ._library import ops
from .text import rope_text


def _text(rope: Any) -> str:
    return rope if isinstance(rope, str) else rope_text(rope)


def _apply(name: str, in_place: bool, q: Tensor, *arguments: Any) -> Tensor:
    """The operator, or its form in place; q as it is then."""
    if in_place:
        getattr(ops, name + "_").default(q, *arguments)
        return q
    result: Tensor = getattr(ops, name).default(q, *arguments)
    return result


def rope_append_kv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    *,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
    block_table: Tensor | None = None,
    sequences: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    key_scales: Tensor | None = None,
    value_scales: Tensor | None = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
    norm: str = "none",
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    eps: float = 1e-6,
    rounding: str = "tensor",
    in_place: bool = False,
    q_bias: Tensor | None = None,
    k_bias: Tensor | None = None,
    scope: str = "head",
    order: str = "before",
    inverse: bool = False,
) -> Tensor:
    """Rotates q, rotates k into key_cache, copies v into value_cache, and returns q: a new tensor,
    or with in_place=True q itself. Tensors and positions are those of rotate(), the norm of q and k
    and its place are those of qk_norm_rope()."""
    return _apply(
        "append_kv", in_place, q, k, v, key_cache, value_cache, slot_mapping, _text(rope),
        block_table, sequences, positions, cu_seqlens, first, token_dim, k_scale, v_scale,
        key_scales, value_scales, scale_use, cache_type, q_weight, k_weight, eps, norm, rounding,
        q_bias, k_bias, scope, order, inverse,
    )  # fmt: skip


def mla_rope_append(
    q: Tensor,
    k: Tensor,
    latent: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    *,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    block_table: Tensor | None = None,
    sequences: Tensor | None = None,
    scale: Tensor | None = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
    in_place: bool = False,
) -> Tensor:
    """Multi-head latent attention: rotates q [.., tokens, heads, n] and returns it as
    rope_append_kv() does; rotates the shared key k [.., tokens, n] and stores it behind the latent
    [.., tokens, m] in one row of the cache, [blocks, block_size, row] or [slots, row].

    cache_type  "auto", "e4m3", "e5m2": latent and key, m + n elements of one type, with `scale`
                "rows": m bytes of e4m3, a computed float32 scale for each 128 of them, then the key
                in its own type: 656 bytes for 512 + 64 elements of bfloat16"""
    return _apply(
        "mla_append", in_place, q, k, latent, cache, slot_mapping, _text(rope), block_table,
        sequences, positions, cu_seqlens, first, scale, scale_use, cache_type,
    )  # fmt: skip


def shift_cached_(
    keys: Tensor,
    slot_mapping: Tensor,
    *,
    rope: Any,
    delta: int | Tensor,
    block_table: Tensor | None = None,
    sequences: Tensor | None = None,
    scale: Tensor | None = None,
    scales: Tensor | None = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
) -> Tensor:
    """shift() of the keys in those slots of a cache, in place. Quantised keys are read, rotated in
    float32 and quantised again, by their `scale`, or by new ones that are written to `scales`."""
    distances, first = (delta, 0) if isinstance(delta, Tensor) else (None, delta)
    ops.shift_cached_.default(
        keys, slot_mapping, _text(rope), block_table, sequences, distances, first, scale, scales,
        scale_use, cache_type,
    )  # fmt: skip
    return keys


def rerotate_cached_(
    keys: Tensor,
    slot_mapping: Tensor,
    *,
    source: Any,
    target: Any,
    positions: Tensor | None = None,
    first: int = 0,
    block_table: Tensor | None = None,
    sequences: Tensor | None = None,
    scale: Tensor | None = None,
    scales: Tensor | None = None,
    scale_use: str = "divide",
    cache_type: str = "auto",
) -> Tensor:
    """Changes keys of a cache that the rope `source` rotated at `positions` to those of `target`,
    in place, as shift_cached_() does it."""
    ops.rerotate_cached_.default(
        keys, slot_mapping, _text(source), _text(target), block_table, sequences, positions, first,
        scale, scales, scale_use, cache_type,
    )  # fmt: skip
    return keys


def rotate_quantized(
    x: Tensor,
    *,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    group_size: int = 128,
    dtype: str = "e4m3",
    scale_use: str = "divide",
    inverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """rotate() (with inverse=True unrotate(), as for the output of attention over rotated values)
    into 8-bit elements, "e4m3", "e5m2" or "int8", and the computed float32 scales
    [.., tokens, heads, groups] of each group_size elements of a head."""
    op = "unrotate" if inverse else "rotate"
    data, scales = ops.rotate_quantized.default(
        x, _text(rope), group_size, dtype, op, positions, cu_seqlens, first, scale_use
    )
    return data, scales
