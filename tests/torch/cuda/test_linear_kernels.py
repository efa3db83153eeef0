# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Linear attention's kernels where they are put together otherwise than for a few short rows."""

import pytest
import torch
from linear_reference import quadratic
from ropes import ladder, text

import rotary.torch as rt

OPS = torch.ops.rotary


@pytest.mark.parametrize("direction", ["causal", "reverse"])
@pytest.mark.parametrize(
    "sizes", [(64, 64), (128, 128), (64, 256), (256, 64), (64, 272), (272, 64)], ids=str
)
def test_many_rows_have_long_segments(sizes: tuple[int, int], direction: str) -> None:
    """A row gives the same among a thousand as alone, where segments are shorter."""
    features, values = sizes
    tokens = 1100
    x, y = (torch.randn(2, tokens, features, device="cuda").bfloat16() for _ in range(2))
    w = torch.randn(2, tokens, values, device="cuda").bfloat16()
    alone = OPS.linear_product(x, y, w, None, direction).double()
    many = OPS.linear_product(*(t.repeat(512, 1, 1) for t in (x, y, w)), None, direction)
    for begin in (0, 510, 1022):
        error = many[begin : begin + 2].double() - alone
        assert error.norm() < 5e-3 * alone.norm()


@pytest.mark.parametrize("features", [256, 272])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("variant", ["numerator", "before"])
def test_favor_of_16_bits(variant: str, pairing: str, features: int) -> None:
    """Against the quadratic formula in float64 of the same numbers, with gradients and padding."""
    tokens = 300
    w = rt.orthogonal_features(features, 64, torch.Generator().manual_seed(2)).cuda()
    width = features if variant == "numerator" else 64
    chosen = {
        "variant": variant,
        "feature_map": "favor",
        "rope": text(head_dim=width, frequencies=ladder(width // 2), pairing=pairing),
        "causal": True,
    }
    q, k, v, g = (torch.randn(2, 4, tokens, 64, device="cuda").bfloat16() for _ in range(4))
    k, v = k[:, :2], v[:, :2]
    padding = torch.rand(2, tokens, device="cuda") > 0.2
    for seen in (None, padding):
        ours = [x.clone().requires_grad_() for x in (q, k, v)]
        exact = [x.double().cpu().requires_grad_() for x in (q, k, v)]
        y = rt.linear_attend(*ours, **chosen, projection=w, padding=seen)
        there = None if seen is None else seen.cpu()
        expected = quadratic(*exact, **chosen, projection=w.cpu(), padding=there)
        pairs = [(y, expected)]
        grads = torch.autograd.grad(y, ours, g)
        pairs += zip(grads, torch.autograd.grad(expected, exact, g.double().cpu()), strict=True)
        for a, b in pairs:
            assert (a.cpu().double() - b).norm() < 3e-2 * b.norm()
