"""Calls of the operators without the boxing of torch.ops, and what they leave to torch.ops."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ropes import text
from torch.overrides import TorchFunctionMode

import rotary.torch as rt
from rotary.torch._library import calls, ops

ROPE = text(scale=1.25)
ROTATIONS = ["rotate", "rotate_", "unrotate", "unrotate_", "adjoint", "shift", "shift_"]


def tensors(device: str, count: int = 2) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 5, 3 - i, 16, device=device) for i in range(count))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("op", ROTATIONS)
def test_same_results_as_torch_ops(op: str, count: int, device: str) -> None:
    given = tensors(device, count)
    at = torch.arange(5, device=device)
    for where in [(at, None, 0, -3), (None, None, 7, -3), (at.view(1, 5), None, 0, -3)]:
        copies = tuple(x.clone() for x in given)
        wanted = getattr(ops, op)([x.clone() for x in given], ROPE, *where)
        found = getattr(calls, op)(copies, ROPE, *where)
        if op.endswith("_"):
            wanted = [x.clone() for x in given]
            getattr(ops, op)(wanted, ROPE, *where)
            assert found is (copies[0] if count == 1 else copies)
        found = (found,) if count == 1 else found
        assert type(found) is tuple and len(found) == count
        for a, b in zip(found, wanted, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("op", ["rotate_table", "adjoint_table"])
def test_tables(op: str, device: str) -> None:
    angles = torch.randn(5, 8, device=device)
    given = tensors(device)
    found = getattr(calls, op)(given, angles.cos(), angles.sin(), ROPE, -3)
    wanted = getattr(ops, op)(given, angles.cos(), angles.sin(), ROPE, -3)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("op", ["rotate_table_", "adjoint_table_"])
def test_rows_of_a_table(op: str, count: int, device: str) -> None:
    angles = torch.randn(9, 8, device=device)
    given = tensors(device, count)
    for at in (torch.tensor([3, 8, 0, 3, 1], device=device), None):
        table = angles[: 5 if at is None else 9]
        rest = (table.cos(), table.sin(), ROPE, at, -3)
        copies, wanted = (tuple(x.clone() for x in given) for _ in range(2))
        getattr(ops, op)(wanted, *rest)
        found = getattr(calls, op)(copies, *rest)
        assert found is (copies[0] if count == 1 else copies)
        for a, b in zip(copies, wanted, strict=True):
            assert torch.equal(a, b) and a._version == b._version
    assert getattr(calls, op)(list(given), *rest) is NotImplemented


def refused() -> dict[str, Callable[[], tuple[Any, ...]]]:
    class Subclass(torch.Tensor):
        pass

    x = torch.randn(5, 3, 16)
    return {
        "a list": lambda: ([x], ROPE, None, None, 0, -3),
        "no tensors": lambda: ((), ROPE, None, None, 0, -3),
        "a subclass": lambda: ((x.as_subclass(Subclass),), ROPE, None, None, 0, -3),
        "a number among tensors": lambda: ((x, 1.0), ROPE, None, None, 0, -3),
        "a rope that is no text": lambda: ((x,), b"rope", None, None, 0, -3),
        "positions in a list": lambda: ((x,), ROPE, [0, 1, 2, 3, 4], None, 0, -3),
        "a bool": lambda: ((x,), ROPE, None, None, True, -3),
        "a number of 70 bits": lambda: ((x,), ROPE, None, None, 1 << 70, -3),
        "too few": lambda: ((x,), ROPE, None, None, 0),
    }


@pytest.mark.parametrize("case", refused().keys())
def test_falls_back_to_torch_ops(case: str) -> None:
    assert calls.rotate(*refused()[case]()) is NotImplemented


def test_modes_see_the_operator() -> None:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        rt.rotate(torch.randn(5, 3, 16), rope=ROPE)
    assert ops.rotate.default in seen


def test_the_profiler_sees_the_operator() -> None:
    with torch.profiler.profile() as profile:
        rt.rotate(torch.randn(5, 3, 16), rope=ROPE)
    assert "rotary::rotate" in {event.name for event in profile.events()}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_torch_jit_traces_the_operator() -> None:
    x = torch.randn(5, 3, 16)
    traced = torch.jit.trace(lambda x: rt.rotate(x, rope=ROPE), x)
    assert "rotary::rotate" in str(traced.graph)
    assert torch.equal(traced(2 * x), rt.rotate(2 * x, rope=ROPE))


def test_errors_are_the_same(device: str) -> None:
    x = torch.randn(5, 3, 12, device=device)
    with pytest.raises(ValueError) as direct:
        calls.rotate((x,), ROPE, None, None, 0, -3)
    with pytest.raises(ValueError) as through_ops:
        ops.rotate([x], ROPE, None, None, 0, -3)
    assert str(direct.value).splitlines()[0] == str(through_ops.value).splitlines()[0]
    assert "head_dim 16" in str(direct.value)


def test_autograd_and_versions(device: str) -> None:
    x, y = (t.requires_grad_() for t in tensors(device))
    q, k = rt.rotate(x, y, rope=ROPE, first=3)
    assert q.grad_fn is k.grad_fn is not None
    plain = x.detach().clone()
    version = plain._version
    rt.rotate_(plain, rope=ROPE, first=3)
    assert plain._version == version + 1
    assert torch.equal(plain, q)
