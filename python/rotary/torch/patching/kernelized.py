# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotations that Hugging Face `kernels` has replaced, compared with the model's own.

A kernel without a backward that copies q and k and rotates the copies in place lets the gradient of
the copy through: training runs, with gradients that were never rotated back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

#: Names of layers of `kernels` that rotate, as transformers' "rotary_pos_emb".
_ROTATES = re.compile(r"rotary|rope")
#: Largest difference, in units of the largest element: a few roundings.
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_TOKENS = 7


def kernelized_rotations(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Name, module that calls it, and function; each function once: the modules of a modelling
    file share it. Those for which `kernels` kept the model's own code are left out."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, function in vars(module).get("_kernel_funcs", {}).items():
            forward = vars(function).get("forward")
            own = getattr(forward, "__func__", None) is type(function).forward
            if forward is None or own or id(function) in seen:
                continue
            if _ROTATES.search(name):
                seen.add(id(function))
                yield f"{path}.{name}".lstrip("."), module, function


def _head_dim(module: nn.Module) -> int:
    values = (getattr(module, name, None) for name in ("qk_rope_head_dim", "head_dim"))
    return next((v for v in values if isinstance(v, int)), 64)


def _random(shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.to(like.device, like.dtype)


def _with_gradients(
    call: Callable[..., Any], tensors: list[Tensor], table: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], list[Tensor | None] | None]:
    """Results, and gradients of random weights; None where results do not require one."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    with torch.enable_grad():
        results = list(call(*leaves, *table))
        if not all(y.requires_grad for y in results):
            return [y.detach() for y in results], None
        weights = [_weight(y, i) for i, y in enumerate(results)]
        grads = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [y.detach() for y in results], list(grads)


def _weight(result: Tensor, index: int) -> Tensor:
    return _random(tuple(result.shape), 41 + index, result)


def _difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest, in units of the largest element."""
    pairs = [(a.double().cpu(), b.double().cpu()) for a, b in zip(found, expected)]
    if any(a.shape != b.shape or not a.isfinite().all() for a, b in pairs):
        return float("inf")
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


def _probe(
    module: nn.Module, function: nn.Module
) -> tuple[list[Tensor], tuple[Tensor, Tensor], Any]:
    """q and k, cos and sin, and what the model's own code makes of them."""
    floating = (p for p in module.parameters() if p.is_floating_point())
    like = next(floating, torch.zeros(()))
    head_dim = _head_dim(module)
    tensors = [_random((2, heads, _TOKENS, head_dim), 31 + heads, like) for heads in (3, 1)]
    angles = _random((1, _TOKENS, head_dim // 2), 40, like)

    def own(*args: Any) -> Any:
        return type(function).forward(function, *args)

    try:  # each cos twice, as halves
        table = (torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1))
        return tensors, table, _with_gradients(own, tensors, table)
    except RuntimeError:  # once (GPT-OSS)
        table = (angles.cos(), angles.sin())
        return tensors, table, _with_gradients(own, tensors, table)


def problem_of(module: nn.Module, function: nn.Module) -> tuple[str, float] | None:
    """What is wrong with a kernelized rotation, and by how much: its result, and where the module
    is in training mode its gradients. None for a right one."""
    tensors, table, (expected, expected_grads) = _probe(module, function)
    tolerance = _TOLERANCE.get(tensors[0].dtype, 5e-2)
    try:
        results, grads = _with_gradients(function, tensors, table)
    except (RuntimeError, NotImplementedError) as error:
        return f"cannot be run, or has no backward ({str(error).splitlines()[0]})", float("inf")
    error_size = _difference(results, expected)
    if not error_size <= tolerance:
        return "gives another result than the model's own rotation", error_size
    if not module.training:
        return None
    if grads is None or any(g is None for g in grads):
        return "has no gradient: training leaves out what comes before it", float("inf")
    found = [g for g in grads if g is not None]
    error_size = _difference(found, expected_grads)
    if error_size <= tolerance:
        return None
    weights = [_weight(y, i) for i, y in enumerate(results)]
    if _difference(found, weights) <= tolerance:
        return "lets gradients through as they are, without rotating them back", error_size
    return "has other gradients than the model's own rotation", error_size
