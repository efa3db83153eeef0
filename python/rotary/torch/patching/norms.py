# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds out what a norm of queries or keys does, by trying it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from .._library import ops
from .probe import difference, random
from .shapes import EPSILONS, TOLERANCE, Norm

_TOKENS = 7
#: By class, epsilon and shapes of parameters.
_KNOWN: dict[tuple[Any, ...], Norm | str] = {}


def _epsilon(module: nn.Module) -> float | None:
    values = (getattr(module, name, None) for name in EPSILONS)
    return next((v for v in values if isinstance(v, float)), None)


def norm_operator() -> Any:
    """The operator of a norm and a rotation by a table; None in the library for the stable ABI."""
    found = getattr(ops, "norm_rotate_table", None)
    return None if found is None else found.default


def _normed(x: Tensor, weight: Tensor | None, bias: Tensor | None, norm: Norm) -> Tensor:
    """By the kernel, which rotates by nothing."""
    size = x.shape[-1]
    layout = f'{{"head_dim": {size}, "rotary_dim": 2, "pairing": "half", "theta": 1e4}}'
    cos, sin = torch.ones(_TOKENS, 1), torch.zeros(_TOKENS, 1)
    weights = [] if weight is None else [weight]
    biases = [] if bias is None else [bias]
    how = (-3, norm.eps, norm.kind, norm.rounding)
    result: Tensor = norm_operator()([x], weights, biases, cos, sin, layout, *how)[0]
    return result


def _candidates(eps: float, has_weight: bool, has_bias: bool) -> list[Norm]:
    if has_bias:
        return [Norm("layer", "tensor", eps, has_weight, has_bias)]
    kinds = [("rms", "tensor"), ("rms", "every_step"), ("layer", "tensor")]
    if has_weight:
        kinds.insert(2, ("rms_one_plus", "tensor"))
    return [Norm(kind, rounding, eps, has_weight, has_bias) for kind, rounding in kinds]  # type: ignore[arg-type]


def _agrees(module: nn.Module, norm: Norm, dtype: torch.dtype) -> bool:
    """RMS norms have the same bits; LayerNorm sums in another order than PyTorch's."""
    module = copy.deepcopy(module).to(dtype)
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    size = weight.shape[0] if weight is not None else 24
    # Small enough for epsilon to matter.
    x = (3e-3 * random((2, _TOKENS, 3, size), 51)).to(dtype)
    expected = module(x)
    found = _normed(x, weight, bias, norm)
    if expected.dtype != found.dtype:
        return False
    if norm.kind != "layer":
        return torch.equal(expected, found)
    return difference(expected, found) < (TOLERANCE if dtype == torch.float32 else 1e-2)


@torch.no_grad()
def classify_norm(module: nn.Module) -> Norm | str:
    """What the norm does, or why that is not known."""
    own = {name: p.shape for name, p in module.named_parameters()}
    if not set(own) <= {"weight", "bias"} or any(len(shape) != 1 for shape in own.values()):
        return f"{type(module).__name__} has other parameters than a weight of one dimension"
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if "forward" in vars(module) or any(getattr(module, name) for name in hooks):
        return f"{type(module).__name__} has hooks or a forward of its own"
    eps = _epsilon(module)
    if eps is None:
        return f"{type(module).__name__} has no epsilon that is known"
    key = (type(module), eps, tuple(own.items()))
    if key not in _KNOWN:
        _KNOWN[key] = _classify(module, eps)
    return _KNOWN[key]


def _classify(module: nn.Module, eps: float) -> Norm | str:
    name = type(module).__name__
    try:
        probe = copy.deepcopy(module).to("cpu", torch.float32).requires_grad_(False)
        for i, p in enumerate(probe.parameters()):
            p.copy_(random(tuple(p.shape), 61 + i))
        has = dict(probe.named_parameters())
        for norm in _candidates(eps, "weight" in has, "bias" in has):
            if all(_agrees(probe, norm, dtype) for dtype in (torch.float32, torch.bfloat16)):
                return norm
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return f"{name} cannot be tried ({str(error).splitlines()[0]})"
    return f"{name} normalises in no way that is known"
