# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""check on a GPU: a kernel without a backward, in a model of transformers as it is."""

import forward_only
import pytest
import torch

import rotary.torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_check_warns(dtype):
    model = forward_only.make(dtype)
    loss, grads = forward_only.step(model)
    with forward_only.on_kernel(model, forward_only.ForwardOnly):
        wrong_loss, wrong = forward_only.step(model)
        (finding,) = rotary.torch.check(model)
        assert rotary.torch.check(model.eval()) == []  # inference needs no gradient
        model.train()
    assert finding.name == "model.layers.0.self_attn.rotary_pos_emb"
    assert finding.problem == "lets gradients through as they are, without rotating them back"
    # Training goes on with the right loss, and gradients that are off by their own size.
    assert wrong_loss == pytest.approx(loss, rel=1e-2)
    size, _ = forward_only.compare(wrong, grads)
    assert size > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotation_with_gradient(dtype):
    model = forward_only.make(dtype)
    loss, grads = forward_only.step(model)
    with forward_only.on_kernel(model, forward_only.WithGradient):
        own_loss, own = forward_only.step(model)
        found = rotary.torch.check(model)
    assert found == [] and found.kernels == 1
    assert own_loss == pytest.approx(loss, rel=1e-5 if dtype == torch.float32 else 1e-2)
    if dtype == torch.float32:  # in bfloat16 the model's own code rounds more often
        assert forward_only.compare(own, grads)[0] < 1e-3
