"""Operators refuse tensors of other devices and shapes, which kernels would read out of bounds."""

import pytest
import torch

import rotary.torch  # noqa: F401  (loads the operators)

OPS = torch.ops.rotary
ROWS, WIDTH = 6, 16


def add_norm() -> list:
    x = torch.randn(ROWS, WIDTH)
    bias, weight, shift = torch.randn(3, WIDTH)
    return [x, x.clone(), bias, weight, shift, torch.tensor(7), 0.5]


def add_norm_backward() -> list:
    x, residual, bias, weight, shift, seed, dropout = add_norm()
    _, mean, rstd = OPS.add_norm(x, residual, bias, weight, shift, seed, dropout)
    return [x.clone(), x.clone(), x, residual, bias, weight, mean, rstd, seed, dropout]


def cross_entropy() -> list:
    return [torch.randn(ROWS, WIDTH), torch.arange(ROWS), torch.randn(WIDTH)]


def cross_entropy_backward() -> list:
    logits, labels, _ = cross_entropy()
    return [torch.randn(ROWS), logits, labels, OPS.cross_entropy(logits, labels)[1]]


def feed_forward() -> list:
    return [torch.randn(ROWS, 8), torch.randn(WIDTH, 8), torch.randn(WIDTH), torch.randn(8, WIDTH)]


def feed_forward_backward() -> list:
    arguments = feed_forward()
    return [torch.randn(ROWS, 8), arguments[3], OPS.feed_forward(*arguments)[2]]


def reciprocals() -> list:
    return [torch.rand(2, ROWS) + 1, torch.rand(2, ROWS)]


def reciprocals_backward() -> list:
    sums, bounds = reciprocals()
    return [torch.randn(2, ROWS), OPS.linear_reciprocals(sums, bounds), sums, bounds, 0.01]


CALLS = {
    "add_norm": add_norm,
    "add_norm_backward": add_norm_backward,
    "bias_gelu": lambda: [torch.randn(ROWS, WIDTH), torch.randn(WIDTH)],
    "bias_gelu_backward": lambda: [*torch.randn(2, ROWS, WIDTH), torch.randn(WIDTH)],
    "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward,
    "feed_forward": feed_forward,
    "feed_forward_backward": feed_forward_backward,
    "linear_reciprocals": reciprocals,
    "linear_reciprocals_backward": reciprocals_backward,
    "unit_vectors_backward": lambda: [*torch.randn(2, ROWS, WIDTH)],
    "scaled_rows_and_dots": lambda: [*torch.randn(2, ROWS, WIDTH), torch.rand(ROWS) + 1],
}


def tensors_of(name: str) -> list[int]:
    return [i for i, one in enumerate(CALLS[name]()) if isinstance(one, torch.Tensor)]


EACH = [(name, i) for name in CALLS for i in tensors_of(name)]


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("feed")])
def test_arguments_are_taken(name: str, device: str) -> None:
    arguments = [one.to(device) if isinstance(one, torch.Tensor) else one for one in CALLS[name]()]
    getattr(OPS, name)(*arguments)


@pytest.mark.parametrize(("name", "which"), EACH)
def test_other_device_is_refused(name: str, which: int) -> None:
    arguments = CALLS[name]()
    arguments[which] = arguments[which].to("meta")
    with pytest.raises(ValueError, match=r"^\[[a-z_]+\] "):
        getattr(OPS, name)(*arguments)


@pytest.mark.parametrize(("name", "which"), EACH)
def test_other_shape_is_refused(name: str, which: int) -> None:
    arguments = CALLS[name]()
    one = arguments[which]
    arguments[which] = torch.cat([one.flatten(), one.flatten()])[: one.numel() + 1]
    if arguments[which].numel() == 2:  # the seed
        arguments[which] = one.repeat(2)
    with pytest.raises(ValueError, match=r"^\[[a-z_]+\] "):
        getattr(OPS, name)(*arguments)


@pytest.mark.parametrize("which", range(6))
def test_fused_attention_backward(which: int) -> None:
    q, k, v, grad = torch.randn(4, 1, 2, 5, 8)
    seed = torch.tensor(3)
    y, lse = OPS.fused_attention(q, k, v, seed, 0.5, 1.0)
    arguments = [grad, q, k, v, y, lse]
    OPS.fused_attention_backward(*arguments, seed, 0.5, 1.0)
    arguments[which] = arguments[which][..., :-1].contiguous()
    with pytest.raises(ValueError, match=r"^\[fused_attention\] "):
        OPS.fused_attention_backward(*arguments, seed, 0.5, 1.0)
    with pytest.raises(ValueError, match="dropout needs a seed"):
        OPS.fused_attention_backward(grad, q, k, v, y, lse, None, 0.5, 1.0)
