# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Kernels of linear attention in configurations that small inputs do not use."""

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
def test_results_do_not_depend_on_segment_length(sizes: tuple[int, int], direction: str) -> None:
    """A row gives the same among few rows (short segments) and among a thousand (long segments)."""
    features, values = sizes
    tokens = 1100
    x, y = (torch.randn(2, tokens, features, device="cuda").bfloat16() for _ in range(2))
    w = torch.randn(2, tokens, values, device="cuda").bfloat16()
    few_rows = OPS.linear_product(x, y, w, None, direction).double()
    many = OPS.linear_product(*(t.repeat(512, 1, 1) for t in (x, y, w)), None, direction)
    for begin in (0, 510, 1022):
        error = many[begin : begin + 2].double() - few_rows
        assert error.norm() < 5e-3 * few_rows.norm()


@pytest.mark.parametrize("features", [256, 272])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize("variant", ["numerator", "before"])
def test_favor_in_bfloat16(variant: str, pairing: str, features: int) -> None:
    """Results and gradients against the quadratic formula in float64, with and without padding."""
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
    for mask in (None, padding):
        ours = [x.clone().requires_grad_() for x in (q, k, v)]
        exact = [x.double().cpu().requires_grad_() for x in (q, k, v)]
        y = rt.linear_attend(*ours, **chosen, projection=w, padding=mask)
        mask_cpu = None if mask is None else mask.cpu()
        expected = quadratic(*exact, **chosen, projection=w.cpu(), padding=mask_cpu)
        pairs = [(y, expected)]
        grads = torch.autograd.grad(y, ours, g)
        pairs += zip(grads, torch.autograd.grad(expected, exact, g.double().cpu()), strict=True)
        for a, b in pairs:
            assert (a.cpu().double() - b).norm() < 3e-2 * b.norm()
