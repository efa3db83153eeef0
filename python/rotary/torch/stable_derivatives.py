# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the operators of stable_abi.py, in Python: PyTorch's stable ABI has none.

In a kernel each, for the dispatch key Autograd, and not by torch.library.register_autograd: that
takes no lists of tensors together with arguments that have defaults, and nothing of torch.func.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

#: Each operator: its transpose, and the sign of its angle.
ROTATIONS = {
    "rotate": ("adjoint", 1),
    "adjoint": ("rotate", -1),
    "unrotate": ("unrotate_adjoint", -1),
    "unrotate_adjoint": ("unrotate", 1),
    "shift": ("shift_adjoint", 1),
    "shift_adjoint": ("shift", -1),
}
TABLES = {"rotate_table": "adjoint_table", "adjoint_table": "rotate_table"}
#: Operators whose input has the pairing of the rope's input; that of the others is its output's.
_FORWARD = ("rotate", "unrotate_adjoint", "rotate_table")


class Layout:
    """What derivatives need to know of a rope's text."""

    def __init__(self, text: str) -> None:
        fields = json.loads(text)
        self.head_dim = int(fields["head_dim"])
        self.axes = int(fields.get("axes", 1))
        self.offset = int(fields.get("rotary_offset", 0))
        self.pairing = str(fields["pairing"])
        self.output_pairing = str(fields.get("output_pairing", self.pairing))
        self.grows = bool(fields.get("growth"))
        if "frequencies" in fields:
            self.pairs = len(fields["frequencies"]) // self.axes
        else:
            self.pairs = int(fields.get("rotary_dim", self.head_dim)) // 2

    def input_pairing(self, name: str) -> str:
        return self.pairing if name in _FORWARD else self.output_pairing

    def result_pairing(self, name: str) -> str:
        forward = name in _FORWARD or name.startswith("shift")
        return self.output_pairing if forward else self.pairing

    def split(self, x: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
        """The two elements of every pair, in the type that rotations are computed in."""
        x = x if x.dtype == torch.float64 else x.float()
        part = x.narrow(-1, self.offset, 2 * self.pairs)
        if pairing == "half":
            return part[..., : self.pairs], part[..., self.pairs :]
        return part[..., ::2], part[..., 1::2]


layout_of = cache(Layout)


def _given(grads: Sequence[Tensor | None]) -> tuple[list[int], list[Tensor]]:
    """Gradients that exist, and which they are."""
    pairs = [(i, g) for i, g in enumerate(grads) if g is not None]
    return [i for i, _ in pairs], [g for _, g in pairs]


def _scattered(count: int, indices: list[int], values: Sequence[Tensor]) -> list[Tensor | None]:
    found: list[Tensor | None] = [None] * count
    for i, value in zip(indices, values):
        found[i] = value
    return found


def _shaped_like(gradient: Tensor, positions: Tensor) -> Tensor:
    """[axes, batch, tokens] summed over what positions were broadcast to."""
    shape = (1,) * (3 - positions.dim()) + tuple(positions.shape)
    return gradient.sum_to_size(shape).reshape(positions.shape).to(positions.dtype)


def _table_gradients(
    name: str, tensors: list[Tensor], grads: list[Tensor], cos: Tensor, rope: str, token_dim: int
) -> tuple[Tensor, Tensor]:
    """Of cos and sin. Where a table has each twice, only the first is read: the other has 0."""
    layout = layout_of(rope)
    sign = 1 if name == "rotate_table" else -1
    totals: list[Any] = [0, 0]
    for x, g in zip(tensors, grads):
        a, b = layout.split(x, layout.input_pairing(name))
        ga, gb = layout.split(g, layout.result_pairing(name))
        for i, term in enumerate((ga * a + gb * b, sign * (gb * a - ga * b))):
            term = term.sum(-2 if token_dim == -3 else -3)
            term = term.reshape(-1, *term.shape[-2:])  # [batch, tokens, pairs]
            if cos.dim() == 2:
                term = term.sum(0)
            elif cos.shape[0] == 1:
                term = term.sum(0, keepdim=True)
            totals[i] = totals[i] + term
    if cos.shape[-1] != layout.pairs:
        zeros = [torch.zeros_like(total) for total in totals]
        if layout.pairing == "half":
            totals = [torch.cat(each, -1) for each in zip(totals, zeros)]
        else:
            totals = [torch.stack(each, -1).flatten(-2) for each in zip(totals, zeros)]
    return totals[0].to(cos.dtype), totals[1].to(cos.dtype)


def below_autograd(op: Any, *args: Any) -> Any:
    """op(*args) by its kernel. Raises ValueError for arguments that do not fit: messages that begin
    with the function in brackets, which arrive as RuntimeError from PyTorch 2.15 on."""
    try:
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args)
    except RuntimeError as error:
        message = str(error)
        if not message.startswith("["):
            raise
        raise ValueError(message) from None


def _direct(operators: Any, name: str, tensors: Sequence[Tensor], *rest: Any) -> Any:
    """The results of a direct call, as a tuple; None if it is for the dispatcher."""
    found = operators.direct[name](tuple(tensors), *rest)
    if found is None or found is NotImplemented:
        return None
    return (found,) if len(tensors) == 1 else found


def _forward(operators: Any, name: str, tensors: Sequence[Tensor], *rest: Any) -> Any:
    """An operator inside a Function, which turns derivatives off: outer transforms of torch.func,
    whose levels come after autograd's own, are to see the call with derivatives."""
    results = _direct(operators, name, tensors, *rest)
    if results is not None:
        return results
    op = getattr(operators.ops, name).default
    with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True):
        return below_autograd(op, tensors, *rest)


def _call(operators: Any, name: str, tensors: Sequence[Tensor], *rest: Any) -> Any:
    """An operator in a backward pass, which may have derivatives itself."""
    results = _direct(operators, name, tensors, *rest)
    return getattr(operators.ops, name).default(tensors, *rest) if results is None else results


def _tangents(op: Any, tensors: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
    """Of a linear map: the map of each tangent."""
    return tuple(None if x is None else op([x], *rest)[0] for x in tensors)


class _Rotation(torch.autograd.Function):
    """(operator, rope, first, token_dim, positions, cu_seqlens, *tensors) -> tensors. Its backward
    is its transpose, an operator too, so that derivatives of tensors have any order."""

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        (operators, name), rope, first, token_dim, positions, cu_seqlens, *tensors = args
        rest = (rope, positions, cu_seqlens, first, token_dim)
        return tuple(_forward(operators, name, tensors, *rest))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        (ctx.operators, ctx.name), ctx.rope, ctx.first, ctx.token_dim, *tensors = inputs
        positions, cu_seqlens, *x = tensors
        learned = positions is not None and positions.requires_grad
        if learned and cu_seqlens is not None:
            raise ValueError(
                f"[{ctx.name}] the first positions of packed sequences are whole numbers"
            )
        ctx.count = len(x)
        ctx.save_for_backward(positions, cu_seqlens, *(x if learned else ()))
        ctx.save_for_forward(positions, cu_seqlens)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        transpose, sign = ROTATIONS[ctx.name]
        positions, cu_seqlens, *tensors = ctx.saved_tensors
        indices, given = _given(grads)
        if not given:
            return (None,) * (6 + ctx.count)
        rest = (ctx.rope, positions, cu_seqlens, ctx.first, ctx.token_dim)
        results = _call(ctx.operators, transpose, given, *rest)
        moved = None
        if tensors and ctx.needs_input_grad[4]:
            layout = layout_of(ctx.rope)
            if layout.grows:
                raise NotImplementedError(
                    f"[{ctx.name}] gradients of xPos's positions need operators built for this "
                    f"PyTorch"
                )
            used = [tensors[i] for i in indices]
            pairing = layout.input_pairing(ctx.name)
            gradient = ctx.operators.ops.position_gradient.default(
                used, results, ctx.rope, pairing, ctx.token_dim
            )
            moved = sign * _shaped_like(gradient, positions)
        return None, None, None, None, moved, None, *_scattered(ctx.count, indices, results)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        if tangents[4] is not None:
            raise NotImplementedError(
                f"[{ctx.name}] forward-mode derivatives go through tensors, not positions"
            )
        positions, cu_seqlens = ctx.saved_tensors[:2]
        op = getattr(ctx.operators.ops, ctx.name).default
        return _tangents(
            op, tangents[6:], ctx.rope, positions, cu_seqlens, ctx.first, ctx.token_dim
        )


class _Table(torch.autograd.Function):
    """(operator, rope, token_dim, cos, sin, *tensors) -> tensors."""

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        (operators, name), rope, token_dim, cos, sin, *tensors = args
        return tuple(_forward(operators, name, tensors, cos, sin, rope, token_dim))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        (ctx.operators, ctx.name), ctx.rope, ctx.token_dim, cos, sin, *x = inputs
        ctx.count = len(x)
        learned = cos.requires_grad or sin.requires_grad
        ctx.save_for_backward(cos, sin, *(x if learned else ()))
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        cos, sin, *tensors = ctx.saved_tensors
        indices, given = _given(grads)
        if not given:
            return (None,) * (5 + ctx.count)
        rest = (cos, sin, ctx.rope, ctx.token_dim)
        results = _call(ctx.operators, TABLES[ctx.name], given, *rest)
        table: tuple[Tensor | None, Tensor | None] = (None, None)
        if tensors:
            used = [tensors[i] for i in indices]
            table = _table_gradients(ctx.name, used, given, cos, ctx.rope, ctx.token_dim)
        return None, None, None, *table, *_scattered(ctx.count, indices, results)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        if tangents[3] is not None or tangents[4] is not None:
            raise NotImplementedError(
                f"[{ctx.name}] forward-mode derivatives go through tensors, not tables"
            )
        cos, sin = ctx.saved_tensors[:2]
        op = getattr(ctx.operators.ops, ctx.name).default
        return _tangents(op, tangents[5:], cos, sin, ctx.rope, ctx.token_dim)


class _PositionGradient(torch.autograd.Function):
    """Its own derivative is refused, which would otherwise silently be none."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        operators, count, *rest = args
        (rope, pairing, token_dim), tensors = rest[:3], rest[3:]
        given = (tensors[:count], tensors[count:], rope, pairing, token_dim)
        found = _forward(operators, "position_gradient", *given)
        assert isinstance(found, Tensor)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "[position_gradient] second derivatives of positions need operators built for this "
            "PyTorch"
        )


@cache
def _single_level(function: Any) -> Any:
    """The same Function for one level of torch.func's transforms."""
    base = torch.autograd.function._SingleLevelFunction
    return type(
        function.__name__, (base,), {k: v for k, v in vars(function).items() if k in _RULES}
    )


_RULES = ("forward", "setup_context", "backward", "jvp")


def _apply(function: Any, *args: Any) -> Any:
    """function.apply within a kernel. A transform of torch.func that has called it has removed its
    own level, so that the function is to see a single one."""
    if not torch._C._are_functorch_transforms_active():
        return function.apply(*args)
    from torch._functorch.autograd_function import enable_single_level_autograd_function

    with enable_single_level_autograd_function():
        return _single_level(function).apply(*args)


def apply_plain(function: Any, *args: Any) -> Any:
    """function.apply where no transform of torch.func is active: without the search of default
    arguments, which takes longer than all the rest."""
    return super(torch.autograd.Function, function).apply(*args)


def needs_derivative(tensors: Sequence[Tensor], *rest: Any) -> bool:
    """Whether gradients, or tangents of forward mode, are asked for."""
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    if not torch.is_grad_enabled():
        return False
    more = (x for x in rest if isinstance(x, Tensor))
    return any(x.requires_grad for x in (*tensors, *more))


def apply_rotation(
    apply: Callable[..., Any],
    operators: Any,
    name: str,
    tensors: Sequence[Tensor],
    rope: str,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: Any = 0,
    token_dim: int = -3,
) -> Any:
    rest = (rope, first, token_dim, positions, cu_seqlens)
    return apply(_Rotation, (operators, name), *rest, *tensors)


def apply_table(
    apply: Callable[..., Any],
    operators: Any,
    name: str,
    tensors: Sequence[Tensor],
    cos: Tensor,
    sin: Tensor,
    rope: str,
    token_dim: int = -3,
) -> Any:
    return apply(_Table, (operators, name), rope, token_dim, cos, sin, *tensors)


def autograd_rotation(operators: Any, name: str) -> Callable[..., Any]:
    op = getattr(operators.ops, name).default

    def autograd(tensors: Sequence[Tensor], rope: str, *rest: Any) -> Any:
        if not needs_derivative(tensors, *rest):
            return below_autograd(op, tensors, rope, *rest)
        return list(apply_rotation(_apply, operators, name, tensors, rope, *rest))

    return autograd


def autograd_in_place(operators: Any, name: str) -> Callable[..., None]:
    """Where derivatives are asked for: out of place, and copied back."""
    outside = getattr(operators.ops, name).default
    inside = getattr(operators.ops, name + "_").default

    def autograd(tensors: Sequence[Tensor], rope: str, *rest: Any) -> None:
        if needs_derivative(tensors, *rest):
            for x, y in zip(tensors, outside(tensors, rope, *rest)):
                x.copy_(y)
            return
        below_autograd(inside, tensors, rope, *rest)
        torch.autograd.graph.increment_version(tensors)

    return autograd


def autograd_table(operators: Any, name: str) -> Callable[..., Any]:
    op = getattr(operators.ops, name).default

    def autograd(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, rope: str, *rest: Any) -> Any:
        if not needs_derivative(tensors, cos, sin):
            return below_autograd(op, tensors, cos, sin, rope, *rest)
        return list(apply_table(_apply, operators, name, tensors, cos, sin, rope, *rest))

    return autograd


def autograd_position_gradient(operators: Any) -> Callable[..., Any]:
    op = operators.ops.position_gradient.default

    def autograd(
        tensors: Sequence[Tensor],
        grads: Sequence[Tensor],
        rope: str,
        pairing: str,
        token_dim: int = -3,
    ) -> Any:
        if not needs_derivative(tensors, *grads):
            return below_autograd(op, tensors, grads, rope, pairing, token_dim)
        rest = (rope, pairing, token_dim)
        return _apply(_PositionGradient, operators, len(tensors), *rest, *tensors, *grads)

    return autograd
