# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The feed_forward operator: the reference on the CPU, the kernels on Hopper."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import rotary.torch  # noqa: F401  (loads the operators)

OPS = torch.ops.rotary
HAS_KERNEL = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
# Maximum relative rounding error of an element; in the norm of many elements it is 0.42 of that.
# The error of float32 sums is negligible, except for float32 itself, which rounds to 2^-24.
ROUNDING = {torch.float32: 2.0**-20, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@pytest.fixture(params=["cpu", "cuda"] if HAS_KERNEL else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def inputs_of(
    rows: tuple[int, ...], width: int, columns: int, dtype: torch.dtype, device: str
) -> list[Tensor]:
    """x, inner, bias and outer; z is about 1.5, where GELU is curved."""
    x = torch.randn(*rows, width, device=device).to(dtype)
    inner = (torch.randn(columns, width, device=device) * 1.5 / width**0.5).to(dtype)
    bias = torch.randn(columns, device=device) * 0.5
    outer = (torch.randn(width, columns, device=device) / columns**0.5).to(dtype)
    return [t.requires_grad_() for t in (x, inner, bias, outer)]


def formula(x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor) -> list[Tensor]:
    """y, h and the derivative of GELU, in float64."""
    z = (functional.linear(x.double(), inner.double()) + bias.double()).requires_grad_()
    h = functional.gelu(z)
    (derivative,) = torch.autograd.grad(h.sum(), z, retain_graph=True)
    return [functional.linear(h, outer.double()), h, derivative.detach()]


def relative_error(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return ((a.double() - b).norm() / b.norm()).item()


# Less than a tile; several tiles, partial in both dimensions; more tiles than run at once.
SHAPES = [((5,), 64, 64), ((2, 150), 128, 320), ((3, 257), 192, 448), ((5000,), 128, 1536)]
# The reference has no tiles, and bfloat16 is slow on many CPUs.
CPU_SHAPES = [((5,), 64, 64), ((2, 50), 64, 160), ((3, 37), 96, 224)]


def shapes_of(device: str) -> list[tuple[tuple[int, ...], int, int]]:
    return SHAPES if device == "cuda" else CPU_SHAPES


def test_results(device: str) -> None:
    for rows, width, columns in shapes_of(device):
        inputs = inputs_of(rows, width, columns, torch.bfloat16, device)
        y, h, derivative = OPS.feed_forward(*inputs)
        wanted_y, wanted_h, wanted_derivative = formula(*inputs)
        assert (y.dtype, h.dtype, derivative.dtype) == (
            torch.bfloat16,
            torch.bfloat16,
            torch.float16,
        )
        assert relative_error(h, wanted_h) < 0.5 * ROUNDING[torch.bfloat16]
        # Most derivatives are just above 1, where the relative rounding error is largest.
        assert relative_error(derivative, wanted_derivative) < 0.6 * ROUNDING[torch.float16]
        assert relative_error(y, wanted_y) < 0.75 * ROUNDING[torch.bfloat16]


def test_gradients(device: str) -> None:
    for rows, width, columns in shapes_of(device):
        inputs = inputs_of(rows, width, columns, torch.bfloat16, device)
        y = OPS.feed_forward(*inputs)[0]
        grad = torch.randn_like(y)
        found = torch.autograd.grad(y, inputs, grad)
        wanted = torch.autograd.grad(formula(*inputs)[0], inputs, grad.double())
        for name, a, b in zip(["x", "inner", "bias", "outer"], found, wanted, strict=True):
            assert a.dtype == b.dtype, name
            assert relative_error(a, b.double()) < 0.75 * ROUNDING[torch.bfloat16], name


def test_deterministic(device: str) -> None:
    inputs = inputs_of((4000,) if device == "cuda" else (100,), 128, 320, torch.bfloat16, device)
    results = []
    for _ in range(2):
        y = OPS.feed_forward(*inputs)[0]
        results.append([y, *torch.autograd.grad(y, inputs, torch.ones_like(y))])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_saturated_gelu(device: str) -> None:
    """GELU is exactly 0 or z and its derivative 0 or 1, without NaN."""
    z = torch.tensor([-1e4, -40.0, -9.0, 0.0, 9.0, 40.0, 1e4]).to(device)
    x = torch.ones(130, 64, device=device, dtype=torch.bfloat16) / 64
    inner = torch.zeros(64, 64, device=device, dtype=torch.bfloat16)
    bias = torch.zeros(64, device=device)
    bias[: len(z)] = z
    _, h, derivative = OPS.feed_forward(x, inner, bias, inner)
    wanted = torch.tensor([0.0, 0.0, 0.0, 0.0, 9.0, 40.0, 1e4]).to(device, torch.bfloat16)
    steps = torch.tensor([0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]).to(device, torch.float16)
    assert torch.allclose(h[:, : len(z)], wanted.expand(130, -1), rtol=0, atol=1e-15)
    assert torch.equal(derivative[:, : len(z)], steps.expand(130, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_other_types_on_the_cpu(dtype: torch.dtype) -> None:
    inputs = inputs_of((2, 7), 24, 40, dtype, "cpu")
    y = OPS.feed_forward(*inputs)[0]
    wanted = formula(*inputs)[0]
    assert relative_error(y, wanted) < 0.75 * ROUNDING[dtype]
    found = torch.autograd.grad(y, inputs, torch.ones_like(y))
    for a, b in zip(found, torch.autograd.grad(wanted.sum(), inputs), strict=True):
        assert relative_error(a, b.double()) < 1.5 * ROUNDING[dtype]


def test_no_rows(device: str) -> None:
    inputs = inputs_of((0,), 64, 128, torch.bfloat16, device)
    y = OPS.feed_forward(*inputs)[0]
    assert y.shape == (0, 64)
    _, inner, bias, outer = torch.autograd.grad(y.sum(), inputs)
    assert not inner.any() and not bias.any() and not outer.any()


@pytest.mark.parametrize("wanted", ["x", "inner", "bias", "outer"])
def test_single_gradient_with_any_strides(device: str, wanted: str) -> None:
    """One gradient, with transposed inputs and an output gradient of stride 0."""
    names = ["x", "inner", "bias", "outer"]
    inputs = [t.detach() for t in inputs_of((2, 70), 64, 128, torch.bfloat16, device)]
    inputs = [t if t.dim() == 1 else t.mT.contiguous().mT for t in inputs]
    one = inputs[names.index(wanted)].requires_grad_()
    (found,) = torch.autograd.grad(OPS.feed_forward(*inputs)[0].sum(), one)
    (exact,) = torch.autograd.grad(formula(*inputs)[0].sum(), one)
    assert relative_error(found, exact.double()) < 0.75 * ROUNDING[torch.bfloat16]


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


def test_rejects_second_derivatives(device: str) -> None:
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
        ({"bias": torch.zeros(8, device="meta")}, "must be on the device of x, cpu"),
    ],
    ids=["inner", "outer", "type", "bias", "double", "device"],
)
def test_rejects_wrong_arguments(changed: dict[str, Tensor], message: str) -> None:
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
    y, _, derivative = (t.detach() for t in OPS.feed_forward(*inputs))
    torch.library.opcheck(OPS.feed_forward_backward, (y, inputs[3].detach(), derivative))
    with pytest.raises(ValueError, match="gradient must be"):
        OPS.feed_forward_backward(y.half(), inputs[3], derivative)
    with pytest.raises(ValueError, match="gelu_derivative must be"):
        OPS.feed_forward_backward(y, inputs[3], derivative[:1])
