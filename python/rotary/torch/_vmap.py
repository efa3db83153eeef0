# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""torch.vmap over the operators: the mapped dimension joins the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._library import build, ops

_ROTATIONS = ("rotate", "adjoint", "unrotate", "unrotate_adjoint", "shift", "shift_adjoint")


def _front(x: Tensor, dim: int | None, size: int) -> Tensor:
    """The mapped dimension first; broadcast where there is none."""
    return x.unsqueeze(0).expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _joined_positions(positions: Tensor, dim: int | None, size: int, batch: int) -> Tensor:
    """[axes, size * batch, tokens], or unchanged where all entries share them."""
    if dim is None and (positions.dim() == 1 or positions.shape[-2] == 1):
        return positions
    x = _front(positions, dim, size)
    if x.dim() == 2:  # [size, tokens]
        x = x.unsqueeze(1)
    if x.dim() == 3:  # [size, batch, tokens]
        x = x.unsqueeze(1)
    x = x.expand(-1, -1, batch, -1).transpose(0, 1)
    return x.reshape(x.shape[0], size * batch, x.shape[3])


def _slice(x: Any, dim: Any, i: int) -> Any:
    if isinstance(x, (list, tuple)):
        return [_slice(y, d, i) for y, d in zip(x, dim)]
    return x if dim is None else x.select(dim, i)


def _one_by_one(op: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
    """A loop over the mapped dimension; results are stacked, unless in place."""
    dims = [
        [None] * len(x) if d is None and isinstance(x, (list, tuple)) else d
        for x, d in zip(args, in_dims)
    ]
    results = [op(*(_slice(x, d, i) for x, d in zip(args, dims))) for i in range(info.batch_size)]
    if results[0] is None:
        return None, None
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    stacked = [torch.stack(entries) for entries in zip(*results)]
    return type(results[0])(stacked), type(results[0])([0] * len(stacked))


def _register_rotation(name: str) -> None:
    op = getattr(ops, name).default

    def rule(
        info: Any,
        in_dims: tuple[Any, ...],
        tensors: list[Tensor],
        rope: str,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        token_dim: int = -3,
    ) -> Any:
        dims = tuple(in_dims) + (None,) * (6 - len(in_dims))
        args = (tensors, rope, positions, cu_seqlens, first, token_dim)
        if dims[3] is not None or (dims[2] is not None and cu_seqlens is not None):
            return _one_by_one(op, info, dims, args)
        size = info.batch_size
        list_dims = dims[0] or [None] * len(tensors)
        fronts = [_front(x, d, size) for x, d in zip(tensors, list_dims)]
        if positions is not None and cu_seqlens is None:
            batch = fronts[0].shape[1:-3].numel()
            positions = _joined_positions(positions, dims[2], size, batch)
        results = op(fronts, rope, positions, cu_seqlens, first, token_dim)
        return results, [0] * len(results)

    torch.library.register_vmap(f"rotary::{name}", rule)


def _register_one_by_one(name: str) -> None:
    op = getattr(ops, name).default

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _one_by_one(op, info, in_dims, args)

    torch.library.register_vmap(f"rotary::{name}", rule)


def _register_per_head_gradient() -> None:
    op = ops.per_head_gradient.default

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        def one(*args: Any) -> list[Tensor]:
            inputs, frequencies, log_scale = op(*args)
            return [*inputs, frequencies, log_scale]

        results, _ = _one_by_one(one, info, in_dims, args)
        *inputs, frequencies, log_scale = results
        return (inputs, frequencies, log_scale), ([0] * len(inputs), 0, 0)

    torch.library.register_vmap("rotary::per_head_gradient", rule)


def _register_matrix(name: str) -> None:
    op = getattr(ops, name).default

    def rule(info: Any, in_dims: tuple[Any, ...], like: Tensor, rope: str) -> Any:
        del info
        return op(like if in_dims[0] is None else like.select(in_dims[0], 0), rope), None

    torch.library.register_vmap(f"rotary::{name}", rule)


def register() -> None:
    for name in _ROTATIONS:
        _register_rotation(name)
        _register_one_by_one(name + "_")
    for name in ("rotate_table", "adjoint_table", "position_gradient"):
        _register_one_by_one(name)
    _register_matrix("frequencies_like")
    if build == "stable":  # the rest is not there
        return
    for name in ("rotate_learned_table", "rotate_per_head", "frequency_gradient"):
        _register_one_by_one(name)
    _register_per_head_gradient()
    _register_matrix("growth_like")


register()
