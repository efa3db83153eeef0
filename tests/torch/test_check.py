"""rotary.torch.check finds rotary buffers that are not what the config says."""

from __future__ import annotations

import math

import pytest
import torch
from patch_families import BY_TYPE, FAMILIES, Family
from torch import nn

from rotary.torch.patching import check

_SCALED = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8,
                 "original_max_position_embeddings": 64},
}  # fmt: skip


def llama(**options: object) -> nn.Module:
    return Family("llama", "half", options).make()


def scaled(kind: str) -> nn.Module:
    parameters = {"rope_type": kind, "rope_theta": 10000.0, **_SCALED[kind]}
    return llama(rope_parameters=parameters)


def inv_freq(model: nn.Module) -> torch.Tensor:
    return model.model.rotary_emb.inv_freq


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)
def test_healthy_models(family: Family) -> None:
    found = check(family.make())
    assert found == []
    assert found.checked > 0
    assert not found.unchecked
    assert repr(found) == f"{found.checked} rotary buffers checked, 0 wrong"


@pytest.mark.parametrize("kind", _SCALED)
def test_healthy_scalings(kind: str) -> None:
    assert check(scaled(kind)) == []


@pytest.mark.parametrize("length", [8, 300])
@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_healthy_after_running_at_another_length(kind: str, length: int) -> None:
    model = scaled(kind)
    with torch.no_grad():
        model(torch.ones(1, length, dtype=torch.long))
    assert check(model) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("back", [False, True], ids=["cast", "cast-and-back"])
def test_cast(dtype: torch.dtype, back: bool) -> None:
    model = llama(max_position_embeddings=32768)
    model.model.rotary_emb.to(dtype)
    if back:
        model.float()
    (finding,) = check(model)
    assert finding.name == "model.rotary_emb.inv_freq"
    assert finding.problem == f"was cast to {str(dtype).removeprefix('torch.')}"
    assert finding.context == 32768
    exact = 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8)
    error = (exact.to(dtype).double() - exact) * 32767
    wrapped = (error - 2 * math.pi * (error / (2 * math.pi)).round()).abs().max()
    assert finding.phase_error == pytest.approx(float(wrapped), rel=1e-3)
    assert finding.turns == pytest.approx(finding.phase_error / 2 / math.pi)
    assert "32,767" in str(finding)


def test_meta() -> None:
    model = llama()
    model.to("meta")
    (finding,) = check(model)
    assert "on meta" in finding.problem


@pytest.mark.parametrize("garbage", ["zeros", "tiny", "negative", "nan", "huge"])
def test_never_initialised(garbage: str) -> None:
    model = llama()
    values = {"zeros": 0.0, "tiny": 6.9e-18, "negative": -1.0, "nan": math.nan, "huge": 3e30}
    model.to("meta")
    model.to_empty(device="cpu")
    inv_freq(model).fill_(values[garbage])
    (finding,) = check(model)
    assert "never initialised" in finding.problem
    assert finding.phase_error > 0.5


def test_wrong_theta() -> None:
    model = llama()
    inv_freq(model).copy_(500000.0 ** (-torch.arange(8) / 8))
    (finding,) = check(model)
    assert finding.problem == "is that of theta 500000, the config says 10000"


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_scaling_left_out(kind: str) -> None:
    model = scaled(kind)
    inv_freq(model).copy_(10000.0 ** (-torch.arange(8) / 8))
    (finding,) = check(model)
    assert finding.problem == "has no scaling, the config asks for it"


def test_scaling_twice() -> None:
    model = scaled("linear")
    inv_freq(model).div_(4)
    (finding,) = check(model)
    assert finding.problem == "is 0.25 times the config's"


def test_one_wrong_frequency() -> None:
    model = llama()
    inv_freq(model)[5] *= 1.5
    (finding,) = check(model)
    assert "factor of up to 1.5" in finding.problem


def test_wrong_attention_scaling() -> None:
    model = scaled("yarn")
    model.model.rotary_emb.attention_scaling = 1.0
    (finding,) = check(model)
    assert finding.name == "model.rotary_emb.attention_scaling"
    assert finding.expected_scale == pytest.approx(0.1 * math.log(4) + 1)
    assert finding.phase_error == 0
    assert "times what they should be" in str(finding)


def test_one_layer_type_of_two() -> None:
    model = BY_TYPE["gemma3_text"].make()
    module = model.model.rotary_emb
    module.full_attention_inv_freq.copy_(module.full_attention_inv_freq.bfloat16())
    (finding,) = check(model)
    assert finding.name == "model.rotary_emb.full_attention_inv_freq"
    assert "bfloat16" in repr(check(model))


def test_axes() -> None:
    model = BY_TYPE["qwen2_vl"].make()
    model.model.visual.rotary_pos_emb.inv_freq.mul_(2)
    model.model.language_model.rotary_emb.bfloat16()
    assert [finding.name for finding in check(model)] == [
        "model.visual.rotary_pos_emb.inv_freq",
        "model.language_model.rotary_emb.inv_freq",
    ]


@pytest.mark.parametrize("name", ["gptj", "codegen", "roformer"])
def test_tables(name: str) -> None:
    model = BY_TYPE[name].make()
    tables = [b for n, b in model.named_buffers() if "embed_positions" in n]
    tables += [p.data for n, p in model.named_parameters() if "embed_positions" in n]
    assert tables
    tables[0][1:] = tables[0][:-1].clone()
    (finding,) = check(model)
    assert "embed_positions" in finding.name
    assert finding.phase_error == pytest.approx(1.0, abs=1e-3), "one position of the fastest pair"


def test_a_bfloat16_model_as_transformers_loads_it_is_healthy() -> None:
    assert check(BY_TYPE["llama"].make(torch.bfloat16)) == []


def test_lists_models_that_cannot_be_checked() -> None:
    model = llama()
    model.model.rotary_emb.config = None
    model.config.rope_parameters["rope_type"] = "unheard-of"
    found = check(model)
    assert found == []
    assert list(found.unchecked) == ["model.rotary_emb.inv_freq"]
    assert "not checked" in repr(found)


class _Function(nn.Module):
    """As `kernels` makes a layer of a function."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        def rotated(x: torch.Tensor) -> torch.Tensor:
            a, b = x.chunk(2, -1)
            return x * cos.unsqueeze(1) + torch.cat([-b, a], -1) * sin.unsqueeze(1)

        return rotated(q), rotated(k)


def _unrotated(q: torch.Tensor, k: torch.Tensor, *table: torch.Tensor) -> list[torch.Tensor]:
    """Copies that were rotated in place by an operator without a backward."""
    copies = [q.clone(), k.clone()]
    for copy, value in zip(copies, _Function().forward(q.detach(), k.detach(), *table)):
        copy.data.copy_(value)
    return copies


def test_kernelized_rotation() -> None:
    model = llama().train()
    function = _Function()
    for layer in model.model.layers:
        layer.self_attn._kernel_funcs = {"rotary_pos_emb": function}
    assert check(model).kernels == 0
    function.forward = lambda *args: _Function.forward(function, *args)
    healthy = check(model)
    assert healthy == [] and healthy.kernels == 1
    function.forward = _unrotated
    (finding,) = check(model)
    assert finding.name == "model.layers.0.self_attn.rotary_pos_emb"
    assert "without rotating them back" in finding.problem
    assert "of the largest element" in str(finding)
    assert check(model.eval()) == []  # inference needs no gradients
