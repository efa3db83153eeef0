# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds out what a function that rotates does, by trying it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .kernel import stand_in
from .shapes import ROTATIONS, SIGNATURES, TOLERANCE, Behaviour, Signature

_PAIRS, _TOKENS, _BATCH, _HEADS = 6, 5, 2, (3, 2)


def signature_of(function: Callable[..., Any]) -> Signature | None:
    """The known set of parameters that the function's belong to."""
    names = tuple(inspect.signature(function).parameters)
    return next((s for s in SIGNATURES if s.takes(names)), None)


def random(shape: tuple[int, ...], seed: int) -> Tensor:
    """The same numbers every time, whatever the state of torch's generators."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator)


def difference(one: Any, other: Any) -> float:
    """The largest difference, in units of the largest element; infinite where shapes differ."""
    ones = one if isinstance(one, tuple) else (one,)
    others = other if isinstance(other, tuple) else (other,)
    if len(ones) != len(others):
        return float("inf")
    worst = 0.0
    for x, y in zip(ones, others, strict=True):
        if x.shape != y.shape:
            return float("inf")
        error = (x - y).abs().max() / x.abs().max()
        worst = max(worst, error.nan_to_num(float("inf")).item())
    return worst


def laid_out(per_pair: Tensor, columns: str) -> Tensor:
    """A table of one column per pair, with the columns that are wanted."""
    if columns == "single":
        return per_pair
    doubled = per_pair.repeat_interleave(2, -1)
    return torch.cat([per_pair, per_pair], -1) if columns == "halves" else doubled


def arguments(
    signature: Signature, tensors: list[Tensor], cos: Tensor, sin: Tensor, **more: Any
) -> dict[str, Any]:
    """What to call a function of that signature with."""
    named = dict(zip(signature.tensors, tensors, strict=False))
    if signature.kind == "cos, sin":
        return {**named, "cos": cos, "sin": sin, **more}
    if signature.kind == "complex":
        return {**named, signature.table[0]: torch.complex(cos, sin), **more}
    if signature.kind == "complex grid":
        grid = torch.complex(cos, sin).reshape(-1, *cos.shape[-2:])[0].unsqueeze(1)
        return {**named, signature.table[0]: grid, **more}
    table = torch.cat([sin, cos], -1)
    return {**named, signature.table[0]: table.reshape(1, 1, *table.shape[-2:]), **more}


def heads(
    signature: Signature, head_dim: int, token_dim: int, tokens: int = _TOKENS
) -> list[Tensor]:
    """Queries and keys, of different numbers of heads. All but values, which are optional."""
    shapes = [(_BATCH, n, tokens, head_dim) for n in _HEADS[: len(signature.tensors)]]
    tensors = [random(shape, 1 + i) for i, shape in enumerate(shapes)]
    return tensors if token_dim == -2 else [x.transpose(1, 2).contiguous() for x in tensors]


def _candidates(signature: Signature, unsqueezes: bool) -> Iterator[Behaviour]:
    for pairing, output, columns, direction in ROTATIONS:
        if signature.kind != "cos, sin" and columns != "single":
            continue
        for token_dim in (-2,) if unsqueezes else (-2, -3):
            for part in ("leading", "trailing", "whole"):
                yield Behaviour(pairing, output, columns, direction, part, token_dim)  # type: ignore[arg-type]


def _agrees(function: Callable[..., Any], signature: Signature, behaviour: Behaviour) -> bool:
    more = 0 if behaviour.part == "whole" else 4
    per_pair = [random((_BATCH, _TOKENS, _PAIRS), seed) for seed in (11, 12)]
    cos, sin = (laid_out(x, behaviour.columns) for x in per_pair)
    tensors = heads(signature, 2 * _PAIRS + more, behaviour.token_dim)
    replacement = stand_in(function, signature, behaviour)
    # Without batch first: not every function takes tables with one.
    for rows in (slice(0, 1), slice(0, 2)):
        if signature.kind == "sin|cos" and rows.stop == 2:
            continue
        given = arguments(signature, tensors, cos[rows], sin[rows])
        try:
            expected = function(**given)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return _agrees_without_batch(function, signature, behaviour, tensors, cos[0], sin[0])
        if not difference(expected, replacement(**given)) < TOLERANCE:
            return False
    return True


def _agrees_without_batch(
    function: Callable[..., Any],
    signature: Signature,
    behaviour: Behaviour,
    tensors: list[Tensor],
    cos: Tensor,
    sin: Tensor,
) -> bool:
    """With a table of [tokens, columns], as vision towers have it."""
    given = arguments(signature, tensors, cos, sin)
    try:
        expected = function(**given)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return difference(expected, stand_in(function, signature, behaviour)(**given)) < TOLERANCE


def _leaves_first_tokens(
    function: Callable[..., Any], signature: Signature, behaviour: Behaviour
) -> bool:
    """Whether tokens before those that the table has rows for stay as they are."""
    tensors = heads(signature, 2 * _PAIRS, behaviour.token_dim, _TOKENS + 2)
    per_pair = [random((_TOKENS, _PAIRS), seed) for seed in (11, 12)]
    cos, sin = (laid_out(x, behaviour.columns) for x in per_pair)
    given = arguments(signature, tensors, cos, sin)
    try:
        expected = function(**given)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return difference(expected, stand_in(function, signature, behaviour)(**given)) < TOLERANCE


@torch.no_grad()
def classify(function: Callable[..., Any]) -> tuple[Signature, Behaviour] | str:
    """What the function does, or why that is not known."""
    signature = signature_of(function)
    if signature is None:
        return f"its parameters {tuple(inspect.signature(function).parameters)} are not known"
    unsqueezes = "unsqueeze_dim" in inspect.signature(function).parameters
    for behaviour in _candidates(signature, unsqueezes):
        if _agrees(function, signature, behaviour):
            last = replace(behaviour, tokens="last")
            if not unsqueezes and _leaves_first_tokens(function, signature, last):
                behaviour = last
            return signature, behaviour
    return "it rotates pairs in no way that is known"
