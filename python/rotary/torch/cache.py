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
    in_place: bool = False,
    **options: Any,
) -> Tensor:
    """Rotates q, rotates k into key_cache, copies v into value_cache, and returns q: a new tensor,
    or with in_place=True q itself. Other options, with their defaults:

    cu_seqlens=None, first=0, token_dim=-3                      as in rotate()
    block_table=None, sequences=None, k_scale=None, v_scale=None, key_scales=None,
    value_scales=None, scale_use="divide", cache_type="auto"    as above
    norm="none", q_weight=None, k_weight=None, eps=1e-6, rounding="tensor"   as in qk_norm_rope()
    """
    tensors = (q, k, v, key_cache, value_cache, slot_mapping, _text(rope))
    if in_place:
        ops.append_kv_.default(*tensors, positions=positions, **options)
        return q
    result: Tensor = ops.append_kv.default(*tensors, positions=positions, **options)
    return result


def mla_rope_append(
    q: Tensor,
    k: Tensor,
    latent: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    *,
    rope: Any,
    positions: Tensor | None = None,
    in_place: bool = False,
    **options: Any,
) -> Tensor:
    """Multi-head latent attention: rotates q [.., tokens, heads, n] and returns it as
    rope_append_kv() does; rotates the shared key k [.., tokens, n] and stores it behind the latent
    [.., tokens, m] in one row of the cache, [blocks, block_size, row] or [slots, row].

    cache_type  "auto", "e4m3", "e5m2": latent and key, m + n elements of one type, with `scale`
                "rows": m bytes of e4m3, a computed float32 scale for each 128 of them, then the key
                in its own type: 656 bytes for 512 + 64 elements of bfloat16
    Other options: cu_seqlens, first, block_table, sequences, scale=None, scale_use="divide".
    """
    tensors = (q, k, latent, cache, slot_mapping, _text(rope))
    if in_place:
        ops.mla_append_.default(*tensors, positions=positions, **options)
        return q
    result: Tensor = ops.mla_append.default(*tensors, positions=positions, **options)
    return result


def shift_cached_(
    keys: Tensor, slot_mapping: Tensor, *, rope: Any, delta: int | Tensor, **options: Any
) -> Tensor:
    """shift() of the keys in those slots of a cache, in place. Quantised keys are read, turned in
    float32 and quantised again.

    Options: block_table=None, sequences=None, scale=None, scales=None (computed ones),
    scale_use="divide", cache_type="auto"."""
    where: dict[str, Any] = {"delta": delta} if isinstance(delta, Tensor) else {"first": delta}
    ops.shift_cached_.default(keys, slot_mapping, _text(rope), **where, **options)
    return keys


def rerotate_cached_(
    keys: Tensor,
    slot_mapping: Tensor,
    *,
    source: Any,
    target: Any,
    positions: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Changes keys of a cache that the rope `source` rotated at `positions` to those of `target`,
    in place. Options as in shift_cached_(), and first=0 for a range of positions."""
    ropes = (_text(source), _text(target))
    ops.rerotate_cached_.default(keys, slot_mapping, *ropes, positions=positions, **options)
    return keys


def _quantized(x: Tensor, op: str, rope: Any, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    data, scales = ops.rotate_quantized.default(x, _text(rope), op=op, **options)
    return data, scales


def rotate_quantized(x: Tensor, *, rope: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """rotate() into 8-bit elements, and the float32 scales [.., tokens, heads, groups] of each
    group of group_size elements of a head.

    Options: group_size=128, dtype="e4m3" ("e5m2", "int8"), positions=None, cu_seqlens=None,
    first=0, scale_use="divide"."""
    return _quantized(x, "rotate", rope, options)


def unrotate_quantized(x: Tensor, *, rope: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """unrotate() likewise: the output of attention whose values were rotated."""
    return _quantized(x, "unrotate", rope, options)
