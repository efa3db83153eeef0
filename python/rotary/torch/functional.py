# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation as functions.

    text = rotary.torch.rope_text(rotary.Rope(head_dim=128, theta=5e5, pairing="half"))
    q, k = rotary.torch.rotate(q, k, rope=text, first=4096)

Tensors are [.., tokens, heads, head_dim], or with token_dim=-2 [.., heads, tokens, head_dim] as
transformers has them: any strides, no copies. They share batch and tokens; heads and types may
differ. One tensor gives one result, several give a tuple.

Positions of the tokens:
    first       an int: first, first + 1, ... (0 by default)
    positions   int32, int64, float32 or float64: [tokens], [batch, tokens] or
                [axes, batch, tokens]; a batch of 1 is broadcast
    cu_seqlens  int32 or int64 [sequences + 1]: sequences packed along the tokens, each from 0, or
                from positions[s]
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from torch import Tensor
from torch.compiler import is_compiling

from ._library import calls, ops
from .text import rope_text


def _operator(name: str, ops: Any = ops, calls: Any = calls) -> Any:
    """torch.ops.rotary.<name> as a function of a tuple of tensors and the operator's other
    arguments. One tensor gives one result, several give a tuple; in place these are the tensors
    themselves. Calls go around torch.ops where they can (pytorch/python/calls.cc)."""
    op = getattr(ops, name).default
    call: Any = getattr(calls, name, None)

    def apply(tensors: tuple[Tensor, ...], *rest: Any) -> Any:
        if call is not None and not is_compiling():
            results = call(tensors, *rest)
            if results is not NotImplemented:
                return results
        results = op(tensors, *rest)
        if results is None:  # in place
            results = tensors
        return results[0] if len(tensors) == 1 else tuple(results)

    return apply


class _Rotation(Protocol):
    def __call__(
        self,
        *tensors: Tensor,
        rope: Any,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        token_dim: int = -3,
    ) -> Any: ...


class _Shift(Protocol):
    def __call__(
        self,
        *keys: Tensor,
        rope: Any,
        delta: int | Tensor,
        cu_seqlens: Tensor | None = None,
        token_dim: int = -3,
    ) -> Any: ...


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _rotation(name: str, doc: str) -> _Rotation:
    apply = _operator(name)

    def rotation(
        *tensors: Tensor,
        rope: Any,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        token_dim: int = -3,
    ) -> Any:
        text = rope if isinstance(rope, str) else rope_text(rope)
        return apply(tensors, text, positions, cu_seqlens, first, token_dim)

    return cast(_Rotation, _named(rotation, name, doc))


def _shift(name: str, doc: str) -> _Shift:
    apply = _operator(name)

    def shift(
        *keys: Tensor,
        rope: Any,
        delta: int | Tensor,
        cu_seqlens: Tensor | None = None,
        token_dim: int = -3,
    ) -> Any:
        positions, first = (delta, 0) if isinstance(delta, Tensor) else (None, delta)
        text = rope if isinstance(rope, str) else rope_text(rope)
        return apply(keys, text, positions, cu_seqlens, first, token_dim)

    return cast(_Shift, _named(shift, name, doc))


rotate = _rotation("rotate", "Rotates into new tensors.")
rotate_ = _rotation("rotate_", "Rotates in place. Returns its arguments.")
unrotate = _rotation("unrotate", "The inverse, scale included.")
unrotate_ = _rotation("unrotate_", "unrotate() in place.")
adjoint = _rotation(
    "adjoint", "The transpose: maps the gradient of the output to the gradient of the input."
)
shift = _shift(
    "shift",
    """Moves rotated keys by `delta`: those of position p become those of p + delta. A tensor gives
    each token its distance, or ([batch, 1]) each batch row, or with cu_seqlens each sequence.""",
)
shift_ = _shift("shift_", "shift() in place.")

# The same for a tuple of tensors and all arguments, by position: what a module calls.
rotate_all = _operator("rotate")
unrotate_all = _operator("unrotate")
rotate_all_by_table = _operator("rotate_table")
adjoint_all_by_table = _operator("adjoint_table")
rotate_all_by_rows_ = _operator("rotate_table_")
adjoint_all_by_rows_ = _operator("adjoint_table_")


def rotate_by_table(
    *tensors: Tensor, cos: Tensor, sin: Tensor, rope: Any, token_dim: int = -3
) -> Any:
    """By a cos/sin table: [tokens, columns] or [batch, tokens, columns], one column per pair, or
    two as in transformers. Only the layout of the head is taken from the rope."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    return rotate_all_by_table(tensors, cos, sin, text, token_dim)


def rotate_by_table_(
    *tensors: Tensor,
    cos: Tensor,
    sin: Tensor,
    rope: Any,
    positions: Tensor | None = None,
    inverse: bool = False,
    token_dim: int = -3,
) -> Any:
    """In place, by a table for all positions, [rows, pairs]: a token takes the row of its position
    (int32 or int64, [tokens] or [batch, tokens]), which is read where it lies; ValueError for a
    position that is no row. Without positions, the table has one row per token. `inverse`
    multiplies by the conjugate. Returns its arguments. No gradient: rotate_by_table has one."""
    text = rope if isinstance(rope, str) else rope_text(rope)
    apply = adjoint_all_by_rows_ if inverse else rotate_all_by_rows_
    return apply(tensors, cos, sin, text, positions, token_dim)
