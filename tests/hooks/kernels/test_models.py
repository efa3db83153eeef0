# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers, as they are, rotate by the kernel: the same results and gradients."""

import pytest
import torch
from kernels import Mode
from models import DEVICE, MODELS, NOT_OFFERED, make, offer, on_kernel, repository, step
from torch import nn

import rotary.torch


def is_projection(name):
    return any(part in name for part in ("q_proj", "k_proj", "Wqkv", "query_key_value"))


@pytest.mark.parametrize("model_type", MODELS)
def test_training_step(folder, model_type):
    compare_training_steps(make(model_type), repository(folder))


@pytest.mark.parametrize("model_type", NOT_OFFERED)
def test_training_step_of_other_rotations(folder, model_type, monkeypatch):
    """Partial and interleaved: the layers of the folder that have another rotation than Llama's."""
    offer(model_type, monkeypatch)
    layer, _ = NOT_OFFERED[model_type]
    compare_training_steps(make(model_type), repository(folder, layer))


def compare_training_steps(model, on):
    states, grads = step(model)
    with on_kernel(model, on):
        (function,) = {
            id(f): f for m in model.modules() for f in vars(m).get("_kernel_funcs", {}).values()
        }.values()
        assert function.forward.__func__ is not type(function).forward
        kernel_states, kernel_grads = step(model)
        checked = rotary.torch.check(model)
        assert checked == [] and checked.kernels == 1
    torch.testing.assert_close(kernel_states, states, rtol=1e-4, atol=1e-5)
    assert kernel_grads.keys() == grads.keys()
    assert any(is_projection(name) for name in grads)
    for name, grad in grads.items():
        torch.testing.assert_close(
            kernel_grads[name], grad, rtol=1e-3, atol=1e-4 * float(grad.abs().max())
        )


def test_inference(folder):
    model = make("llama").eval()
    ids = torch.arange(12, device=DEVICE).reshape(2, 6)
    with torch.no_grad():
        expected = model(input_ids=ids).last_hidden_state
        with on_kernel(model, repository(folder), Mode.INFERENCE):
            got = model(input_ids=ids).last_hidden_state
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_compiled(folder):
    model = make("llama").eval()
    ids = torch.arange(12, device=DEVICE).reshape(2, 6)
    with torch.no_grad():
        expected = model(input_ids=ids).last_hidden_state
        with on_kernel(model, repository(folder), Mode.INFERENCE | Mode.TORCH_COMPILE):
            compiled = torch.compile(model, backend="aot_eager")
            got = compiled(input_ids=ids).last_hidden_state
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


class Unrotated(nn.Module):
    """As the hub's kernel: copies, which an operator without a backward rotates in place."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        results = []
        for x in (q, k):
            copy = x.clone()
            c, s = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
            a, b = copy.data.chunk(2, -1)
            copy.data.copy_(copy.data * c + torch.cat([-b, a], -1) * s)
            results.append(copy)
        return tuple(results)


class Detached(nn.Module):
    """A kernel whose results have no gradient at all."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        with torch.no_grad():
            return Unrotated.forward(self, q, k, cos, sin, unsqueeze_dim)


class Wrong(nn.Module):
    """Another pairing."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        c, s = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        pairs = (torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) for x in (q, k))
        return tuple(x * c + y * s for x, y in zip((q, k), pairs))


class Layer:
    """A repository of a layer of this file."""

    def __init__(self, cls):
        self.cls = cls

    def load(self):
        return self.cls


@pytest.mark.parametrize(
    ("layer", "problem"),
    [
        (Unrotated, "lets gradients through as they are, without rotating them back"),
        (Detached, "has no gradient: training leaves out what comes before it"),
        (Wrong, "gives another result than the model's own rotation"),
    ],
)
def test_check_finds(layer, problem):
    model = make("llama")
    with on_kernel(model, Layer(layer)):
        found = rotary.torch.check(model)
    (finding,) = found
    assert finding.name == "layers.0.self_attn.rotary_pos_emb"
    assert finding.problem == problem
    assert finding.difference > 0.1
    assert "1 rotary buffers and 1 kernelized rotations checked, 1 wrong" in repr(found)


def test_check_asks_for_gradients_in_training_alone():
    model = make("llama").eval()
    with on_kernel(model, Layer(Unrotated), Mode.INFERENCE):
        assert rotary.torch.check(model) == []
    assert rotary.torch.check(model.train()).kernels == 0


def test_the_defect_is_one():
    """What check warns of: gradients of q and k that a training step would follow are wrong."""
    model = make("llama")
    _, grads = step(model)
    with on_kernel(model, Layer(Unrotated)):
        _, wrong = step(model)
    name = "layers.0.self_attn.k_proj.weight"
    assert (wrong[name] - grads[name]).abs().max() > 0.1 * grads[name].abs().max()
