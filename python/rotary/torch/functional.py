# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation as functions.

    text = rotary.torch.rope_text(rotary.Rope(head_dim=128, theta=5e5, pairing="half"))
    q, k = rotary.torch.rotate(q, k, rope=text, first=4096)

Tensors are [.., tokens, heads, head_dim], or with token_dim=-2 [.., heads, tokens, head_dim] as
transformers has them: any strides, no copies. They share batch and tokens; heads and types may
differ. One tensor gives one result, several give a tuple.

Where tokens stand:
    first       an int: at first, first + 1, ... (0 by default)
    positions   int32, int64, float32 or float64: [tokens], [batch, tokens] or
                [axes, batch, tokens]; a batch of 1 stands for all
    cu_seqlens  int32 or int64 [sequences + 1]: sequences packed along the tokens, each from 0, or
                from positions[s]
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ._library import ops
from .text import rope_text

_rotate, _rotate_in_place = ops.rotate.default, ops.rotate_.default
_unrotate, _unrotate_in_place = ops.unrotate.default, ops.unrotate_.default
_shift, _shift_in_place = ops.shift.default, ops.shift_.default
_adjoint = ops.adjoint.default
_rotate_table = ops.rotate_table.default


def _turn(
    op: Any,
    tensors: tuple[Tensor, ...],
    rope: Any,
    positions: Tensor | None,
    cu_seqlens: Tensor | None,
    first: int,
    token_dim: int,
) -> Any:
    text = rope if isinstance(rope, str) else rope_text(rope)
    results = op(tensors, text, positions, cu_seqlens, first, token_dim)
    if results is None:  # in place
        results = tensors
    return results[0] if len(tensors) == 1 else tuple(results)


def rotate(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """Rotates into new tensors."""
    return _turn(_rotate, tensors, rope, positions, cu_seqlens, first, token_dim)


def rotate_(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """Rotates in place, and gives back what it was given."""
    return _turn(_rotate_in_place, tensors, rope, positions, cu_seqlens, first, token_dim)


def unrotate(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """The true inverse, scale included."""
    return _turn(_unrotate, tensors, rope, positions, cu_seqlens, first, token_dim)


def unrotate_(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """unrotate() in place."""
    return _turn(_unrotate_in_place, tensors, rope, positions, cu_seqlens, first, token_dim)


def adjoint(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """The transpose: turns the gradient of the output into the gradient of the input."""
    return _turn(_adjoint, tensors, rope, positions, cu_seqlens, first, token_dim)


def shift(
    *keys: Tensor,
    rope: Any,
    delta: int | Tensor,
    cu_seqlens: Tensor | None = None,
    token_dim: int = -3,
) -> Any:
    """Moves rotated keys by `delta`: those of position p become those of p + delta. A tensor gives
    each token its distance, or ([batch, 1]) each batch row, or with cu_seqlens each sequence."""
    positions, first = (delta, 0) if isinstance(delta, Tensor) else (None, delta)
    return _turn(_shift, keys, rope, positions, cu_seqlens, first, token_dim)


def shift_(
    *keys: Tensor,
    rope: Any,
    delta: int | Tensor,
    cu_seqlens: Tensor | None = None,
    token_dim: int = -3,
) -> Any:
    """shift() in place."""
    positions, first = (delta, 0) if isinstance(delta, Tensor) else (None, delta)
    return _turn(_shift_in_place, keys, rope, positions, cu_seqlens, first, token_dim)


def rotate_by_table(
    *tensors: Tensor, cos: Tensor, sin: Tensor, rope: Any, token_dim: int = -3
) -> Any:
    """By cos and sin that you have: [tokens, columns] or [batch, tokens, columns], one column a
    pair, or two as transformers has it. Only the layout of the head is taken from the rope."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    results = _rotate_table(tensors, cos, sin, text, token_dim)
    return results[0] if len(tensors) == 1 else tuple(results)
