"""Fused layers against PyTorch's own operators."""

import pytest
import torch
from torch.nn import functional

import rotary.torch  # noqa: F401  (loads the operators)

OPS = torch.ops.rotary
TYPES = [torch.float32, torch.bfloat16, torch.float16]
# Rounding of a result, and of sums with terms of about 1.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}


def close(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, times: float = 4.0) -> None:
    scale = b.double().abs().max().item() + 1e-6
    error = (a.double() - b.double()).abs().max().item()
    assert error <= times * TOLERANCE[dtype] * scale, f"{error / scale:.2e}"


def sample(*shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


def parameters(width: int, device: str) -> list[torch.Tensor]:
    bias, weight, shift = (torch.randn(width, device=device) for _ in range(3))
    return [bias.requires_grad_(), (weight * 0.2 + 1).requires_grad_(), shift.requires_grad_()]


def dropout_mask(seed: torch.Tensor, shape: tuple[int, ...], dropout: float) -> torch.Tensor:
    """The mask of the operator: its result for x = 1 and residual 0, with the norm undone."""
    x, zero = torch.ones(shape, device=seed.device), torch.zeros(shape, device=seed.device)
    one, none = (
        torch.ones(shape[-1], device=seed.device),
        torch.zeros(shape[-1], device=seed.device),
    )
    y, mean, rstd = OPS.add_norm(x, zero, None, one, none, seed, dropout)
    return (y / rstd[..., None] + mean[..., None]).round(decimals=3)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [8, 256, 384, 768, 1024])
def test_add_norm(width: int, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(width)
    x, residual = (sample(3, 37, width, dtype=dtype, device=device) for _ in range(2))
    bias, weight, shift = parameters(width, device)
    inputs = [x, residual, bias, weight, shift]
    grad = torch.randn_like(x)

    y = OPS.add_norm(x, residual, bias, weight, shift, eps=1e-6)[0]
    assert y.dtype == dtype
    actual = torch.autograd.grad(y, inputs, grad)
    v = residual.float() + x.float() + bias
    expected_y = functional.layer_norm(v, (width,), weight, shift, 1e-6)
    expected = torch.autograd.grad(expected_y, inputs, grad.float())
    close(y, expected_y, dtype)
    for name, a, b in zip(
        ["x", "residual", "bias", "weight", "shift"], actual, expected, strict=True
    ):
        assert a.dtype == b.dtype, name
        close(a, b, dtype if name in ("x", "residual") else torch.float32, 20)


def test_add_norm_without_residual(device: str) -> None:
    x = sample(5, 16, dtype=torch.float32, device=device)
    bias, weight, shift = parameters(16, device)
    y = OPS.add_norm(x, None, bias, weight, shift)[0]
    expected_y = functional.layer_norm(x + bias, (16,), weight, shift)
    close(y, expected_y, torch.float32)
    grad = torch.randn_like(y)
    actual = torch.autograd.grad(y, [x, bias], grad)
    for a, b in zip(actual, torch.autograd.grad(expected_y, [x, bias], grad), strict=True):
        close(a, b, torch.float32, 20)


@pytest.mark.parametrize("dtype", TYPES)
def test_add_norm_with_dropout(dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(1)
    shape, dropout = (64, 768), 0.25
    x, residual = (sample(*shape, dtype=dtype, device=device) for _ in range(2))
    bias, weight, shift = parameters(shape[-1], device)
    inputs = [x, residual, bias, weight, shift]
    seed = torch.tensor(12345678901234, device=device)
    mask = dropout_mask(seed, shape, dropout)
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - dropout)], abs=2e-3)
    dropped = (mask == 0).double().mean().item()
    assert abs(dropped - dropout) < 4 * (dropout * (1 - dropout) / mask.numel()) ** 0.5

    y = OPS.add_norm(x, residual, bias, weight, shift, seed, dropout)[0]
    grad = torch.randn_like(y)
    actual = torch.autograd.grad(y, inputs, grad)
    v = residual.float() + (mask != 0) / (1 - dropout) * (x.float() + bias)
    expected_y = functional.layer_norm(v, shape[-1:], weight, shift, 1e-5)
    expected = torch.autograd.grad(expected_y, inputs, grad.float())
    close(y, expected_y, dtype)
    for a, b in zip(actual, expected, strict=True):
        close(a, b, dtype if a.dim() == 2 else torch.float32, 20)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [24, 768])
def test_add_norm_with_dropout_of_its_result(width: int, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(1)
    shape, dropout = (50, width), 0.25
    x, residual = (sample(*shape, dtype=dtype, device=device) for _ in range(2))
    bias, weight, shift = parameters(width, device)
    inputs = [x, residual, bias, weight, shift]
    seed = torch.tensor(1234567890123, device=device)
    y = OPS.add_norm(x, residual, bias, weight, shift, seed, dropout, 1e-5, drops_result=True)[0]
    grad = torch.randn_like(y)
    actual = torch.autograd.grad(y, inputs, grad)
    mask = (dropout_mask(seed, shape, dropout) != 0) / (1 - dropout)
    v = residual.float() + x.float() + bias
    expected_y = mask * functional.layer_norm(v, (width,), weight, shift, 1e-5)
    expected = torch.autograd.grad(expected_y, inputs, grad.float())
    assert torch.equal(y == 0, mask == 0)
    close(y, expected_y, dtype)
    for a, b in zip(actual, expected, strict=True):
        close(a, b, dtype if a.dim() == 2 else torch.float32, 20)


def test_dropout_masks_differ_by_seed_and_element_but_not_by_device(device: str) -> None:
    shape = (40, 512)
    a, b = (dropout_mask(torch.tensor(s, device=device), shape, 0.5) != 0 for s in (1, 2))
    assert 0.45 < (a == b).double().mean() < 0.55
    assert 0.45 < (a[1:] == a[:-1]).double().mean() < 0.55
    assert 0.45 < (a[:, 1:] == a[:, :-1]).double().mean() < 0.55
    assert torch.equal(a.cpu(), dropout_mask(torch.tensor(1), shape, 0.5) != 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_bias_gelu(dtype: torch.dtype, device: str) -> None:
    x = torch.linspace(-12, 12, 2 * 1050 * 24, device=device).view(2, 1050, 24).to(dtype)
    x.requires_grad_()
    bias = torch.linspace(-0.5, 0.5, 24, device=device, requires_grad=True)
    y = OPS.bias_gelu(x, bias)
    expected_y = functional.gelu(x.double() + bias.double())
    grad = torch.randn_like(y)
    actual = torch.autograd.grad(y, [x, bias], grad)
    expected = torch.autograd.grad(expected_y, [x, bias], grad.double())
    assert y.dtype == dtype
    torch.testing.assert_close(
        y.double(),
        expected_y,
        rtol=2 * TOLERANCE[dtype],
        atol=2e-6 if dtype != torch.float16 else 1e-5,
    )
    close(actual[0], expected[0], dtype)
    close(actual[1], expected[1], torch.float32, 20)


@pytest.mark.parametrize("dtype", TYPES)
def test_row_sums(dtype: torch.dtype, device: str) -> None:
    for rows, width in [(1, 8), (37, 24), (5000, 2304)]:
        x = torch.randn(rows, width, device=device).to(dtype)
        sums = OPS.row_sums(x)
        assert sums.dtype == torch.float32
        torch.testing.assert_close(sums, x.double().sum(0).float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", TYPES)
def test_cross_entropy(dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(2)
    logits = (torch.randn(37, 1000, device=device) * 5).to(dtype).requires_grad_()
    labels = torch.randint(0, 1000, (37,), device=device)
    losses, lse = OPS.cross_entropy(logits, labels)
    expected = functional.cross_entropy(logits.float(), labels, reduction="none")
    close(losses, expected, torch.float32)
    close(lse, logits.float().logsumexp(1), torch.float32)
    (actual,) = torch.autograd.grad(losses.mean(), logits)
    close(actual, torch.autograd.grad(expected.mean(), logits)[0], dtype)
    labels[3] = 1000
    assert OPS.cross_entropy(logits, labels)[0].isnan().nonzero().flatten().tolist() == [3]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "masked",
    [slice(0, 8), slice(8, 40), slice(3, 11), slice(0, 992), slice(8, 1000), slice(1, 1000)],
)
def test_cross_entropy_takes_masked_logits(masked: slice, dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(4)
    logits = torch.randn(5, 1000, device=device).to(dtype)
    logits[:, masked] = -torch.inf
    logits.requires_grad_()
    labels = logits.detach().float().argmax(1)
    losses, lse = OPS.cross_entropy(logits, labels)
    expected = functional.cross_entropy(logits.float(), labels, reduction="none")
    close(losses, expected, torch.float32)
    close(lse, logits.float().logsumexp(1), torch.float32)
    (actual,) = torch.autograd.grad(losses.sum(), logits)
    close(actual, torch.autograd.grad(expected.sum(), logits)[0], dtype)
    assert (actual[:, masked] == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("rows", "classes"), [(1, 8), (37, 1000), (600, 5000)])
def test_cross_entropy_computes_the_gradient_of_a_bias(
    rows: int, classes: int, dtype: torch.dtype, device: str
) -> None:
    torch.manual_seed(3)
    product = torch.randn(rows, classes, device=device).to(dtype)
    bias = torch.zeros(classes, device=device, requires_grad=True)
    labels = torch.randint(0, classes, (rows,), device=device)
    weights = torch.rand(rows, device=device)
    logits = product.clone().requires_grad_()
    losses = OPS.cross_entropy(logits, labels, bias)[0]
    actual = torch.autograd.grad((losses * weights).sum(), [logits, bias])
    wide = product.float() + bias
    right = (functional.cross_entropy(wide, labels, reduction="none") * weights).sum()
    expected = torch.autograd.grad(right, [wide, bias])
    close(actual[0], expected[0].to(dtype), dtype)
    assert actual[1].dtype == torch.float32
    torch.testing.assert_close(actual[1], expected[1], rtol=1e-4, atol=1e-4)


def test_gradients_are_deterministic(device: str) -> None:
    x, residual = (sample(3000, 768, dtype=torch.bfloat16, device=device) for _ in range(2))
    bias, weight, shift = parameters(768, device)
    seed = torch.tensor(5, device=device)
    grad = torch.randn_like(x)

    def gradients() -> tuple[torch.Tensor, ...]:
        y = OPS.add_norm(x, residual, bias, weight, shift, seed, 0.1)[0] + OPS.bias_gelu(x, bias)
        return torch.autograd.grad(y, [x, residual, bias, weight, shift], grad)

    for a, b in zip(gradients(), gradients(), strict=True):
        assert torch.equal(a, b)


def test_opcheck(device: str) -> None:
    x, residual = (sample(4, 5, 16, dtype=torch.float32, device=device) for _ in range(2))
    bias, weight, shift = parameters(16, device)
    seed = torch.tensor([3], device=device)
    torch.library.opcheck(OPS.add_norm, (x, residual, bias, weight, shift, seed, 0.5, 1e-5))
    torch.library.opcheck(OPS.add_norm, (x, residual, bias, weight, shift, seed, 0.5, 1e-5, True))
    torch.library.opcheck(OPS.add_norm, (x, None, None, weight, shift))
    torch.library.opcheck(OPS.bias_gelu, (x, bias))
    torch.library.opcheck(OPS.row_sums, (x.detach(),))
    labels = torch.randint(0, 16, (4,), device=device)
    logits = x[:, 0].detach().clone().requires_grad_()
    torch.library.opcheck(OPS.cross_entropy, (logits, labels))
    torch.library.opcheck(OPS.cross_entropy, (logits, labels, bias))


def test_rejects_second_derivatives(device: str) -> None:
    x = torch.randn(4, 16, device=device, requires_grad=True)
    w = torch.ones(16, device=device)
    labels = torch.zeros(4, dtype=torch.long, device=device)
    for y in (
        OPS.bias_gelu(x, w),
        OPS.add_norm(x, None, None, w, w, None, 0.0, 1e-5)[0],
        OPS.cross_entropy(x, labels)[0],
    ):
        with pytest.raises(NotImplementedError, match="no second derivative"):
            torch.autograd.grad(y.sum(), x, create_graph=True)


def test_empty_tensors(device: str) -> None:
    x = torch.randn(0, 16, device=device, requires_grad=True)
    bias, weight, shift = parameters(16, device)
    y = OPS.add_norm(x, x, bias, weight, shift)[0] + OPS.bias_gelu(x, bias)
    y.sum().backward()
    assert torch.equal(bias.grad, torch.zeros(16, device=device))


def test_rejects_wrong_arguments(device: str) -> None:
    x = torch.randn(2, 16, device=device)
    bias, weight, shift = parameters(16, device)
    with pytest.raises(ValueError, match=r"\[add_norm\] residual must be as x"):
        OPS.add_norm(x, x[:1], bias, weight, shift)
    with pytest.raises(ValueError, match=r"\[add_norm\] bias must be \[16\] of float32"):
        OPS.add_norm(x, x, bias.double(), weight, shift)
    with pytest.raises(ValueError, match=r"\[add_norm\] dropout needs a seed"):
        OPS.add_norm(x, x, bias, weight, shift, None, 0.1)
    with pytest.raises(ValueError, match=r"\[bias_gelu\] x must be"):
        OPS.bias_gelu(x.double(), bias)
    with pytest.raises(ValueError, match=r"\[mean_cross_entropy\] labels must be \[2\] of int64"):
        OPS.cross_entropy(x, torch.zeros(3, dtype=torch.long, device=device))
    with pytest.raises(ValueError, match=r"\[mean_cross_entropy\] bias must be \[16\] of float32"):
        OPS.cross_entropy(x, torch.zeros(2, dtype=torch.long, device=device), bias[:8])
    if device == "cuda":
        odd = torch.randn(2, 1032, device=device)
        wide = torch.ones(1032, device=device)
        with pytest.raises(ValueError, match="must be a multiple of 8, and at most 1024, got 1032"):
            OPS.add_norm(odd, odd, None, wide, wide)
