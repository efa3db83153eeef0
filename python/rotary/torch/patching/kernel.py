# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Replacements of functions that rotate, on rotary's kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from .._library import ops
from ..functional import adjoint_all_by_table, rotate_all_by_table
from .shapes import Behaviour, Norm, Signature


class NormedTable(NamedTuple):
    """Takes the place of cos: a rotation that includes the norms of q and k, which the method that
    rotates has left out."""

    cos: Tensor
    norms: tuple[nn.Module, nn.Module]
    norm: Norm


def _layout(behaviour: Behaviour, head_dim: int, pairs: int) -> str:
    """The rope's text. Its theta is not used: the angles come with the table."""
    offset = head_dim - 2 * pairs if behaviour.part == "trailing" else 0
    return (
        f'{{"head_dim": {head_dim}, "rotary_dim": {2 * pairs}, "rotary_offset": {offset}, '
        f'"pairing": "{behaviour.pairing}", "output_pairing": "{behaviour.output}", "theta": 1e4}}'
    )


def _columns(table: Tensor, behaviour: Behaviour) -> Tensor:
    """As the operator takes it: one column per pair, or two in the order of the pairing."""
    if behaviour.columns == "halves" and behaviour.pairing == "interleaved":
        return table[..., : table.shape[-1] // 2]
    return table


def rotate(
    behaviour: Behaviour, tensors: list[Tensor], cos: Tensor, sin: Tensor, token_dim: int
) -> Any:
    """All tensors in one call, for gradients too: one result, or a tuple of several."""
    forward = behaviour.direction == "forward"
    apply = rotate_all_by_table if forward else adjoint_all_by_table
    text = _layout(behaviour, tensors[0].shape[-1], behaviour.pairs(cos.shape[-1]))
    cos, sin = _columns(cos, behaviour), _columns(sin, behaviour)
    return apply(tuple(tensors), cos, sin, text, token_dim)


def _is_fused(tensors: list[Tensor], norms: tuple[nn.Module, ...], norm: Norm) -> bool:
    """Whether the kernel gives results of the type that the norms give."""
    types = (torch.float32, torch.bfloat16, torch.float16)
    for x, module in zip(tensors, norms, strict=True):
        if x.dtype not in types:
            return False
        weight = module.weight if norm.has_weight else x
        # Rounded before the weight, the product has the wider type of the two.
        if weight.dtype != x.dtype and (norm.rounding == "every_step" or norm.has_bias):
            return False
        if weight.dtype not in types:
            return False
    return True


def _apply_norm(x: Tensor, module: nn.Module, norm: Norm, token_dim: int) -> Tensor:
    """The model's own norm, of heads in the layout of the rotation."""
    if norm.scope == "head":
        y: Tensor = module(x)
        return y
    rows = x.transpose(-2, -3) if token_dim == -2 else x
    y = module(rows.flatten(-2)).view(rows.shape)
    return y.transpose(-2, -3) if token_dim == -2 else y


def _norm_rotate(
    behaviour: Behaviour, tensors: list[Tensor], table: NormedTable, sin: Tensor, token_dim: int
) -> Any:
    """Norms and rotation in one call."""
    norm, modules = table.norm, table.norms
    text = _layout(behaviour, tensors[0].shape[-1], behaviour.pairs(table.cos.shape[-1]))
    results = ops.norm_rotate_table.default(
        tensors,
        [m.weight for m in modules] if norm.has_weight else [],
        [m.bias for m in modules] if norm.has_bias else [],
        _columns(table.cos, behaviour),
        _columns(sin if behaviour.direction == "forward" else -sin, behaviour),
        text,
        token_dim,
        norm.eps,
        norm.kind,
        norm.rounding,
        norm.scope,
        norm.order,
    )
    return tuple(results)


def _token_dim(cos: Tensor, unsqueeze_dim: int | None, otherwise: int) -> int | None:
    """Where the tokens are once cos is unsqueezed; None where that is not a shape of heads."""
    if unsqueeze_dim is None:
        return otherwise
    index = unsqueeze_dim + cos.dim() + 1 if unsqueeze_dim < 0 else unsqueeze_dim
    return {cos.dim() - 2: -2, cos.dim() - 1: -3}.get(index)


def _fits(tensors: list[Tensor], cos: Tensor, token_dim: int) -> bool:
    """Whether each tensor is [batch, .., head_dim] with a row of the table for every token."""
    if cos.dim() not in (2, 3):
        return False
    for x in tensors:
        if x.dim() not in (3, 4) or x.shape[-1] != tensors[0].shape[-1]:
            return False
        if x.shape[token_dim] != cos.shape[-2]:
            return False
        if cos.dim() == 3 and (x.dim() == 3 or cos.shape[0] not in (1, x.shape[0])):
            return False
    return True


def _table(signature: Signature, given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    if signature.kind == "cos, sin":
        return given["cos"], given["sin"]
    table = given[signature.table[0]]
    if signature.kind == "complex grid" and table.dim() == 3 and table.shape[1] == 1:
        table = table.squeeze(1)
    if table.is_complex():
        return table.real, table.imag
    sin, cos = table.chunk(2, -1)
    return cos, sin


def _with_rows_before(cos: Tensor, sin: Tensor, x: Tensor, token_dim: int) -> tuple[Tensor, Tensor]:
    """A row for every token: those before the table are not rotated."""
    missing = x.shape[token_dim] - cos.shape[-2]
    if cos.dim() != 2 or missing <= 0:
        return cos, sin
    return pad(cos, (0, 0, missing, 0), value=1.0), pad(sin, (0, 0, missing, 0))


def _plain(table: Tensor, heads_dim: int) -> Tensor:
    """[batch, tokens, columns] of what has a dimension of size 1 for the heads already."""
    return table.squeeze(heads_dim) if table.dim() == 4 and table.shape[heads_dim] == 1 else table


def _with_own_norms(
    apply: Callable[..., Any],
    signature: Signature,
    given: dict[str, Any],
    table: NormedTable,
    token_dim: int | None,
) -> Any:
    """One after the other, what the kernel does not take in one."""
    if token_dim is None:
        raise ValueError("[patch] unsqueeze_dim must say where the heads are")

    def normed(tensors: Any) -> list[Tensor]:
        pairs = zip(tensors, table.norms, strict=True)
        return [_apply_norm(x, module, table.norm, token_dim) for x, module in pairs]

    given = {**given, "cos": table.cos}
    if table.norm.order == "after":
        return tuple(normed(apply(**given)))
    names = signature.tensors
    return apply(**{**given, **dict(zip(names, normed(given[n] for n in names), strict=True))})


def stand_in(
    original: Callable[..., Any], signature: Signature, behaviour: Behaviour
) -> Callable[..., Any]:
    """A function with the parameters of `original`, on the kernel. Tensors whose shapes the kernel
    does not take (fewer tokens than rows, five dimensions) are given to `original`."""
    parameters = inspect.signature(original).parameters
    names = list(parameters)
    defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    heads_dim = -3 if behaviour.token_dim == -2 else -2

    def apply(*args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        tensors = [given[name] for name in signature.tensors if given.get(name) is not None]
        cos, sin = _table(signature, given)
        normed = cos if isinstance(cos, NormedTable) else None
        if normed is not None:
            cos = normed.cos
        token_dim = _token_dim(cos, given.get("unsqueeze_dim"), behaviour.token_dim)
        if signature.kind == "sin|cos":
            cos, sin = _plain(cos, heads_dim), _plain(sin, heads_dim)
        if behaviour.tokens == "last" and token_dim is not None:
            cos, sin = _with_rows_before(cos, sin, tensors[0], token_dim)
        if token_dim is not None and _fits(tensors, cos, token_dim):
            if normed is None:
                return rotate(behaviour, tensors, cos, sin, token_dim)
            if _is_fused(tensors, normed.norms, normed.norm):
                return _norm_rotate(behaviour, tensors, normed, sin, token_dim)
        if normed is not None:
            return _with_own_norms(apply, signature, given, normed, token_dim)
        results = original(*args, **kwargs)
        if isinstance(results, tuple):
            return tuple(y.to(x.dtype) for x, y in zip(tensors, results, strict=True))
        return results.to(tensors[0].dtype)

    apply.__name__ = original.__name__
    apply.__qualname__ = original.__qualname__
    apply.__doc__ = original.__doc__
    apply.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    apply.stands_in_for = original  # type: ignore[attr-defined]
    return apply


def is_stand_in(function: Any) -> bool:
    return hasattr(function, "stands_in_for")
