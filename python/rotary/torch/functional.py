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
from torch.compiler import is_compiling

from ._library import calls, ops
from .text import rope_text


def _through_torch_ops(op: Any, tensors: tuple[Tensor, ...], *rest: Any) -> Any:
    results = op(tensors, *rest)
    if results is None:  # in place
        results = tensors
    return results[0] if len(tensors) == 1 else tuple(results)


def _turn(name: str) -> Any:
    """torch.ops.rotary.<name> as a function of a tuple of tensors. One tensor gives one result,
    several give a tuple; in place they are what was given."""
    op = getattr(ops, name).default
    call: Any = getattr(calls, name, None)

    def turn(
        tensors: tuple[Tensor, ...],
        rope: str,
        positions: Tensor | None,
        cu_seqlens: Tensor | None,
        first: int,
        token_dim: int,
    ) -> Any:
        if call is not None and not is_compiling():
            results = call(tensors, rope, positions, cu_seqlens, first, token_dim)
            if results is not NotImplemented:
                return results
        return _through_torch_ops(op, tensors, rope, positions, cu_seqlens, first, token_dim)

    return turn


def _turn_by_table(name: str) -> Any:
    """Likewise, by a table."""
    op = getattr(ops, name).default
    call: Any = getattr(calls, name, None)

    def turn(
        tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, rope: str, token_dim: int
    ) -> Any:
        if call is not None and not is_compiling():
            results = call(tensors, cos, sin, rope, token_dim)
            if results is not NotImplemented:
                return results
        return _through_torch_ops(op, tensors, cos, sin, rope, token_dim)

    return turn


rotate_all, rotate_all_in_place = _turn("rotate"), _turn("rotate_")
unrotate_all, unrotate_all_in_place = _turn("unrotate"), _turn("unrotate_")
shift_all, shift_all_in_place = _turn("shift"), _turn("shift_")
adjoint_all = _turn("adjoint")
rotate_all_by_table = _turn_by_table("rotate_table")
adjoint_all_by_table = _turn_by_table("adjoint_table")


def rotate(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """Rotates into new tensors."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return rotate_all(tensors, text, positions, cu_seqlens, first, token_dim)


def rotate_(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """Rotates in place, and gives back what it was given."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return rotate_all_in_place(tensors, text, positions, cu_seqlens, first, token_dim)


def unrotate(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """The true inverse, scale included."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return unrotate_all(tensors, text, positions, cu_seqlens, first, token_dim)


def unrotate_(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """unrotate() in place."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return unrotate_all_in_place(tensors, text, positions, cu_seqlens, first, token_dim)


def adjoint(
    *tensors: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    token_dim: int = -3,
) -> Any:
    """The transpose: turns the gradient of the output into the gradient of the input."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return adjoint_all(tensors, text, positions, cu_seqlens, first, token_dim)


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
    text = rope if isinstance(rope, str) else rope_text(rope)
    return shift_all(keys, text, positions, cu_seqlens, first, token_dim)


def shift_(
    *keys: Tensor,
    rope: Any,
    delta: int | Tensor,
    cu_seqlens: Tensor | None = None,
    token_dim: int = -3,
) -> Any:
    """shift() in place."""
    positions, first = (delta, 0) if isinstance(delta, Tensor) else (None, delta)
    text = rope if isinstance(rope, str) else rope_text(rope)
    return shift_all_in_place(keys, text, positions, cu_seqlens, first, token_dim)


def rotate_by_table(
    *tensors: Tensor, cos: Tensor, sin: Tensor, rope: Any, token_dim: int = -3
) -> Any:
    """By cos and sin that you have: [tokens, columns] or [batch, tokens, columns], one column a
    pair, or two as transformers has it. Only the layout of the head is taken from the rope."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return rotate_all_by_table(tensors, cos, sin, text, token_dim)
