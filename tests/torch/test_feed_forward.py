# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The feed-forward layer's own operator: on the CPU its formulas, on Hopper the kernels."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import rotary.torch  # noqa: F401  (loads the operators)

OPS = torch.ops.rotary
HAS_KERNEL = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
# What rounding does to a number at most; to many of them, in the norm, 0.42 of it. Sums in float32
# weigh little beside it, but for float32 itself, which has 2^-24.
ROUNDING = {torch.float32: 2.0**-20, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@pytest.fixture(params=["cpu", "cuda"] if HAS_KERNEL else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def inputs_of(
    rows: tuple[int, ...], width: int, columns: int, dtype: torch.dtype, device: str
) -> list[Tensor]:
    """x, inner, bias and outer; z is of about 1.5, where GELU bends."""
    x = torch.randn(*rows, width, device=device).to(dtype)
    inner = (torch.randn(columns, width, device=device) * 1.5 / width**0.5).to(dtype)
    bias = torch.randn(columns, device=device) * 0.5
    outer = (torch.randn(width, columns, device=device) / columns**0.5).to(dtype)
    return [t.requires_grad_() for t in (x, inner, bias, outer)]


def formula(x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor) -> list[Tensor]:
    """y, h and what gelu's gradient is multiplied by, in double."""
    z = (functional.linear(x.double(), inner.double()) + bias.double()).requires_grad_()
    h = functional.gelu(z)
    (slope,) = torch.autograd.grad(h.sum(), z, retain_graph=True)
    return [functional.linear(h, outer.double()), h, slope.detach()]


def apart(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return ((a.double() - b).norm() / b.norm()).item()


# A tile and less; several, the last one short in both directions; more than a device has at once.
SHAPES = [((5,), 64, 64), ((2, 150), 128, 320), ((3, 257), 192, 448)]
LARGE = ((5000,), 128, 1536)


def shapes_of(device: str) -> list[tuple[tuple[int, ...], int, int]]:
    return [*SHAPES, LARGE] if device == "cuda" else SHAPES


def test_results(device: str) -> None:
    for rows, width, columns in shapes_of(device):
        inputs = inputs_of(rows, width, columns, torch.bfloat16, device)
        y, h, slope = OPS.feed_forward(*inputs)
        wanted_y, wanted_h, wanted_slope = formula(*inputs)
        assert (y.dtype, h.dtype, slope.dtype) == (torch.bfloat16, torch.bfloat16, torch.float16)
        assert apart(h, wanted_h) < 0.5 * ROUNDING[torch.bfloat16]
        # Most slopes lie just above 1, where steps are largest beside the number.
        assert apart(slope, wanted_slope) < 0.6 * ROUNDING[torch.float16]
        assert apart(y, wanted_y) < 0.75 * ROUNDING[torch.bfloat16]


def test_gradients(device: str) -> None:
    for rows, width, columns in shapes_of(device):
        inputs = inputs_of(rows, width, columns, torch.bfloat16, device)
        y = OPS.feed_forward(*inputs)[0]
        grad = torch.randn_like(y)
        found = torch.autograd.grad(y, inputs, grad)
        wanted = torch.autograd.grad(formula(*inputs)[0], inputs, grad.double())
        for name, a, b in zip(["x", "inner", "bias", "outer"], found, wanted, strict=True):
            assert a.dtype == b.dtype, name
            assert apart(a, b.double()) < 0.75 * ROUNDING[torch.bfloat16], name


def test_same_numbers_in_every_run(device: str) -> None:
    inputs = inputs_of((4000,) if device == "cuda" else (300,), 128, 320, torch.bfloat16, device)
    results = []
    for _ in range(2):
        y = OPS.feed_forward(*inputs)[0]
        results.append([y, *torch.autograd.grad(y, inputs, torch.ones_like(y))])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_far_out(device: str) -> None:
    """Where GELU is 0 or z, and where the slope is 0 or 1; no NaN."""
    z = torch.tensor([-1e4, -40.0, -9.0, 0.0, 9.0, 40.0, 1e4]).to(device)
    x = torch.ones(130, 64, device=device, dtype=torch.bfloat16) / 64
    inner = torch.zeros(64, 64, device=device, dtype=torch.bfloat16)
    bias = torch.zeros(64, device=device)
    bias[: len(z)] = z
    _, h, slope = OPS.feed_forward(x, inner, bias, inner)
    wanted = torch.tensor([0.0, 0.0, 0.0, 0.0, 9.0, 40.0, 1e4]).to(device, torch.bfloat16)
    steps = torch.tensor([0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]).to(device, torch.float16)
    assert torch.allclose(h[:, : len(z)], wanted.expand(130, -1), rtol=0, atol=1e-15)
    assert torch.equal(slope[:, : len(z)], steps.expand(130, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_types_on_the_cpu(dtype: torch.dtype) -> None:
    inputs = inputs_of((2, 7), 24, 40, dtype, "cpu")
    y = OPS.feed_forward(*inputs)[0]
    wanted = formula(*inputs)[0]
    assert apart(y, wanted) < 0.75 * ROUNDING[dtype]
    found = torch.autograd.grad(y, inputs, torch.ones_like(y))
    for a, b in zip(found, torch.autograd.grad(wanted.sum(), inputs), strict=True):
        assert apart(a, b.double()) < 1.5 * ROUNDING[dtype]


def test_no_rows(device: str) -> None:
    inputs = inputs_of((0,), 64, 128, torch.bfloat16, device)
    y = OPS.feed_forward(*inputs)[0]
    assert y.shape == (0, 64)
    _, inner, bias, outer = torch.autograd.grad(y.sum(), inputs)
    assert not inner.any() and not bias.any() and not outer.any()


@pytest.mark.parametrize("wanted", ["x", "inner", "bias", "outer"])
def test_one_gradient_alone(device: str, wanted: str) -> None:
    """In memory of any order, from a gradient that is one number seen everywhere."""
    names = ["x", "inner", "bias", "outer"]
    inputs = [t.detach() for t in inputs_of((2, 70), 64, 128, torch.bfloat16, device)]
    inputs = [t if t.dim() == 1 else t.mT.contiguous().mT for t in inputs]
    one = inputs[names.index(wanted)].requires_grad_()
    (found,) = torch.autograd.grad(OPS.feed_forward(*inputs)[0].sum(), one)
    (exact,) = torch.autograd.grad(formula(*inputs)[0].sum(), one)
    assert apart(found, exact.double()) < 0.75 * ROUNDING[torch.bfloat16]


def test_one_row(device: str) -> None:
    rows = inputs_of((1,), 64, 128, torch.bfloat16, device)
    alone = [rows[0][0].detach().requires_grad_(), *rows[1:]]
    for a, b in zip(
        torch.autograd.grad(OPS.feed_forward(*rows)[0].sum(), rows),
        torch.autograd.grad(OPS.feed_forward(*alone)[0].sum(), alone),
        strict=True,
    ):
        assert torch.equal(a.flatten(), b.flatten())


def test_autocast_leaves_types_alone(device: str) -> None:
    inputs = inputs_of((3,), 64, 128, torch.bfloat16, device)
    y = OPS.feed_forward(*inputs)[0]
    wanted = [y, *torch.autograd.grad(y.sum(), inputs)]
    with torch.autocast(device, dtype=torch.float16):
        y = OPS.feed_forward(*inputs)[0]
        found = [y, *torch.autograd.grad(y.sum(), inputs)]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_a_second_derivative_is_refused(device: str) -> None:
    inputs = inputs_of((3,), 64, 128, torch.bfloat16, device)
    y = OPS.feed_forward(*inputs)[0]
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(y.sum(), inputs, create_graph=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inner": torch.zeros(8, 5)}, r"weights must be \[inner, width\]"),
        ({"outer": torch.zeros(4, 7)}, r"weights must be \[inner, width\]"),
        ({"outer": torch.zeros(4, 8, dtype=torch.half)}, "weights must be of x's type"),
        ({"bias": torch.zeros(9)}, r"bias must be \[8\] of float32"),
        ({"x": torch.zeros(3, 4, dtype=torch.double)}, "float32, bfloat16 or float16"),
        ({"bias": torch.zeros(8, device="meta")}, "must be where x is, on cpu"),
    ],
    ids=["inner", "outer", "type", "bias", "double", "device"],
)
def test_refusals(changed: dict[str, Tensor], message: str) -> None:
    arguments = {
        "x": torch.zeros(3, 4),
        "inner": torch.zeros(8, 4),
        "bias": torch.zeros(8),
        "outer": torch.zeros(4, 8),
    }
    with pytest.raises(ValueError, match=message):
        OPS.feed_forward(**(arguments | changed))


def test_opcheck(device: str) -> None:
    inputs = inputs_of((2, 3), 64, 128, torch.bfloat16, device)
    torch.library.opcheck(OPS.feed_forward, inputs)
    y, _, slope = (t.detach() for t in OPS.feed_forward(*inputs))
    torch.library.opcheck(OPS.feed_forward_backward, (y, inputs[3].detach(), slope))
    with pytest.raises(ValueError, match="gradient must be"):
        OPS.feed_forward_backward(y.half(), inputs[3], slope)
    with pytest.raises(ValueError, match="slope must be"):
        OPS.feed_forward_backward(y, inputs[3], slope[:1])
