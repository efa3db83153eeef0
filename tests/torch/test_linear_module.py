"""The module LinearAttention: parameters, state, redrawn features, learned frequencies."""

import itertools

import pytest
import torch
from ropes import ROPES, ladder, text

import rotary.torch as rt


def test_decoding_matches_full_pass(device: str) -> None:
    attention = rt.LinearAttention(
        32, 4, kv_heads=2, head_dim=16, value_dim=5, rope=ROPES["half"], causal=True
    ).to(device, torch.float64)
    x = torch.randn(2, 20, 32, device=device, dtype=torch.float64)
    full = attention(x)
    state = rt.LinearState()
    steps = [attention(x[:, :15], state=state)]
    steps += [attention(x[:, t : t + 1], state=state) for t in range(15, 20)]
    torch.testing.assert_close(torch.cat(steps, 1), full, rtol=1e-9, atol=1e-9)
    padding = torch.ones(2, 20, dtype=torch.bool, device=device)
    padding[1, 12:] = False
    torch.testing.assert_close(attention(x, padding=padding)[1, :12], full[1, :12])


def test_state_dict_loads_into_softmax_attention() -> None:
    linear = rt.LinearAttention(64, 4, rope=ROPES["half"], causal=True)
    softmax = rt.Attention(64, 4, encoding=rt.Rotation(ROPES["half"]), causal=True)
    softmax.load_state_dict(linear.state_dict())
    assert set(dict(linear.named_parameters())) == set(dict(softmax.named_parameters()))


def test_learned_frequencies_train(device: str) -> None:
    rope = rt.RotaryEmbedding(ROPES["half"], token_dim=-2, learn="log_gain", learn_scale=True)
    attention = rt.LinearAttention(64, 4, rope=rope, causal=True).to(device)
    attention(torch.randn(1, 9, 64, device=device)).square().sum().backward()
    assert attention.embedding.learned.grad.abs().sum() > 0
    assert attention.embedding.log_scale.grad.abs().sum() > 0


def test_favor_redraws_features_in_training(device: str) -> None:
    attention = rt.LinearAttention(
        64, 4, rope=text(head_dim=80, frequencies=ladder(40)), feature_map="favor", features=80,
        redraw_every=3,
    ).to(device)  # fmt: skip
    projections = [attention.projection.clone()]
    for _ in range(4):
        attention(torch.randn(1, 5, 64, device=device))
        projections.append(attention.projection.clone())
    assert [torch.equal(a, b) for a, b in itertools.pairwise(projections)] == [
        True, True, False, True,
    ]  # fmt: skip
    assert "projection" in attention.state_dict()
    attention.eval()
    for _ in range(4):
        attention(torch.randn(1, 5, 64, device=device))
    assert torch.equal(attention.projection, projections[-1])
    assert rt.LinearAttention(64, 4, feature_map="favor", variant="before").projection.shape == (
        64, 16,
    )  # fmt: skip


def test_rejects_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"\[LinearAttention\] heads must divide model_dim"):
        rt.LinearAttention(10, 3)
    with pytest.raises(ValueError, match=r"\[LinearAttention\] model_dim and heads must be pos"):
        rt.LinearAttention(0, 1)
    with pytest.raises(ValueError, match="kv_heads must divide"):
        rt.LinearAttention(64, 4, kv_heads=3)
    with pytest.raises(ValueError, match="variant must be one of"):
        rt.LinearAttention(64, 4, variant="other")
