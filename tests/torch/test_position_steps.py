"""Content-dependent positions: values, packed sequences, continued rows, gradients."""

import pytest
import torch
from ropes import ROPES, text
from torch.autograd import gradcheck

import rotary.torch as rt


def steps_of(model_dim: int, heads: int, device: str) -> rt.PositionSteps:
    steps = rt.PositionSteps(model_dim, heads, device=device, dtype=torch.float64)
    with torch.no_grad():
        steps.weight.normal_()
        steps.bias.normal_()
    return steps


@pytest.mark.parametrize("heads", [0, 3])
def test_begins_as_ordinary_positions(heads: int, device: str) -> None:
    x = torch.randn(2, 7, 8, device=device)
    at = rt.PositionSteps(8, heads, device=device)(x)
    expected = torch.arange(7, device=device, dtype=torch.float64)
    torch.testing.assert_close(at, expected.expand_as(at), rtol=0, atol=1e-5)
    assert at.shape == ((2, 3, 7) if heads else (2, 7))


@pytest.mark.parametrize("heads", [0, 3])
def test_is_the_running_sum(heads: int, device: str) -> None:
    steps = steps_of(8, heads, device)
    x = torch.randn(2, 7, 8, device=device, dtype=torch.float64)
    at = steps(x)
    each = torch.log1p((x @ steps.weight.T + steps.bias).exp())  # [batch, tokens, heads]
    expected = torch.zeros_like(each)
    for t in range(1, 7):
        expected[:, t] = expected[:, t - 1] + each[:, t]
    torch.testing.assert_close(at, expected.mT if heads else expected[..., 0])
    assert (at.diff(dim=-1) > 0).all()
    continued = steps(x[:, 4:], last=at[..., 3])
    torch.testing.assert_close(torch.cat([steps(x[:, :4]), continued], -1), at)


@pytest.mark.parametrize("heads", [0, 3])
def test_packed_sequences_begin_at_zero(heads: int, device: str) -> None:
    steps = steps_of(8, heads, device)
    x = torch.randn(1, 9, 8, device=device, dtype=torch.float64)
    packed = steps(x, torch.tensor([0, 4, 4, 9], dtype=torch.int32, device=device))
    torch.testing.assert_close(packed, torch.cat([steps(x[:, :4]), steps(x[:, 4:])], -1))


def test_gradients_reach_the_steps(device: str) -> None:
    """Through the rotation, as autograd through the plain formula has them."""
    steps = steps_of(6, 0, device)
    x = torch.randn(2, 4, 6, device=device, dtype=torch.float64, requires_grad=True)
    q = torch.randn(2, 4, 2, 16, device=device, dtype=torch.float64)

    def rotated(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        at = torch.func.functional_call(steps, {"weight": weight, "bias": bias}, (x,))
        return rt.rotate(q, rope=ROPES["half"], positions=at)

    assert gradcheck(rotated, (x, steps.weight, steps.bias))


def test_learns_to_skip_tokens(device: str) -> None:
    """Tokens of one kind do not count: their steps fall, those of the others stay."""
    torch.manual_seed(2)
    kind = torch.randint(0, 2, (16, 12), device=device)
    x = torch.nn.functional.one_hot(kind, 2).float()
    q = torch.randn(16, 12, 1, 16, device=device)
    wanted = kind.cumsum(1).double()
    target = rt.rotate(q, rope=text(theta=100.0, rotary_dim=16), positions=wanted - wanted[:, :1])
    steps = rt.PositionSteps(2, device=device)
    optimizer = torch.optim.Adam(steps.parameters(), lr=0.05)
    losses = []
    for _ in range(120):
        out = rt.rotate(q, rope=text(theta=100.0, rotary_dim=16), positions=steps(x))
        loss = (out - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_rejects_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="model_dim must be positive and heads not negative"):
        rt.PositionSteps(0)
    with pytest.raises(ValueError, match=r"x must be \[batch, tokens, model_dim\], got \(4, 8\)"):
        rt.PositionSteps(8)(torch.randn(4, 8))
    with pytest.raises(ValueError, match="packed sequences are in one row"):
        rt.PositionSteps(8)(torch.randn(2, 4, 8), torch.tensor([0, 4]))
