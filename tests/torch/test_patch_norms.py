"""rotary.torch.patch: norms of queries and keys in one pass with the rotation."""

from __future__ import annotations

import copy
import io
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from patch_families import BY_TYPE, Family, tokens
from test_patch import distance, gradients, largest_gradient_distance, logits
from test_patch_model import state
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rotary.torch.patching import patch, undo

#: Families whose norms are fused, and how.
FUSED = {
    "qwen3": "rms",
    "qwen3_vl": "rms",
    "glm4_moe": "rms",
    "gemma3_text": "rms_one_plus",
    "olmo2": "rms, all heads",
    "olmo3": "rms, all heads",
    "nanochat": "rms, after",
    "apertus": "rms",
    "lfm2": "rms",
    "hunyuan_v1_dense": "rms, after",
    "qwen3_next": "rms_one_plus",
    "minimax_m2": "rms, all heads",
}
MORE = [
    Family("apertus", "half"),
    Family("lfm2", "half", {"layer_types": ["full_attention", "full_attention"]}),
    Family("hunyuan_v1_dense", "half", {"head_dim": 16}),
    Family("qwen3_next", "half", {"head_dim": 16, "layer_types": ["full_attention"] * 2,
                                  "num_experts": 4, "num_experts_per_tok": 2,
                                  "moe_intermediate_size": 16,
                                  "shared_expert_intermediate_size": 16}),
    Family("minimax_m2", "half", {"head_dim": 16, "num_local_experts": 4,
                                  "num_experts_per_tok": 2}),
    Family("exaone4", "half", {"layer_types": ["sliding_attention", "full_attention"],
                               "sliding_window": 8}),
    replace(BY_TYPE["glm4_moe"], options={**BY_TYPE["glm4_moe"].options, "use_qk_norm": True}),
]  # fmt: skip
FAMILIES = {**BY_TYPE, **{family.model_type: family for family in MORE}}


def make(family: Family | str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """With norms whose weights matter."""
    family = FAMILIES[family] if isinstance(family, str) else family
    model = family.make(dtype)
    generator = torch.Generator().manual_seed(9)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and "norm" in name:
            parameter.data.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


class Operators(TorchDispatchMode):
    """Counts the calls of each of our operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "rotary":
            self.calls[func.__name__.removesuffix(".default")] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", FUSED)
def test_logits_and_gradients_are_unchanged(name: str) -> None:
    model = make(name)
    names = state(model)
    before, gradients_before = logits(model), gradients(model)
    norms = [n for n in gradients_before if "norm" in n and "attn" in n]
    report = patch(model)
    rows = [row for row in report.replaced if row.norm]
    assert [(row.norm, row.fused, row.kept) for row in rows] == [(FUSED[name], 2, ())]
    assert f"{FUSED[name]} (fused)" in repr(report)
    with Operators() as operators:
        after = logits(model)
    assert operators.calls == {"norm_rotate_table": 2}
    assert distance(before, after) < FAMILIES[name].tolerance
    gradients_after = gradients(model)
    assert largest_gradient_distance(gradients_before, gradients_after) < 2e-5
    for norm in norms:
        assert distance(gradients_before[norm], gradients_after[norm]) < 1e-4
    report.undo()
    assert state(model) == names
    with Operators() as operators:
        assert torch.equal(logits(model), before)
    assert not operators.calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_bits_are_those_of_the_models_norm_then_the_rotation(name: str, dtype: torch.dtype) -> None:
    model = make(name, dtype)
    with patch(model, norms="own") as report:
        assert not any(row.fused or row.kept for row in report.replaced)
        own = logits(model)
    with patch(model), Operators() as operators:
        fused = logits(model)
    assert operators.calls == {"norm_rotate_table": 2}
    assert torch.equal(own, fused)


def test_training_uses_the_fused_backward() -> None:
    model = make("qwen3")
    with patch(model), Operators() as operators:
        gradients(model)
    assert operators.calls == {"norm_rotate_table": 2, "norm_rotate_table_backward": 2}


@pytest.mark.parametrize("reentrant", [False, True], ids=["saved-tensors", "reentrant"])
@pytest.mark.parametrize("name", ["qwen3", "olmo2", "gemma3_text"])
def test_gradient_checkpointing(name: str, reentrant: bool) -> None:
    model = make(name).train()
    before = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    with patch(model), Operators() as operators:
        after = gradients(model)
    assert operators.calls == {"norm_rotate_table": 4, "norm_rotate_table_backward": 2}
    assert largest_gradient_distance(before, after) < 2e-5


@pytest.mark.parametrize("name", ["qwen3", "olmo2", "gemma3_text"])
def test_compiles_to_one_graph(name: str) -> None:
    torch._dynamo.reset()
    layers = 2 if name == "gemma3_text" else 1  # Gemma's two layers differ
    options = {**FAMILIES[name].options, "num_hidden_layers": layers}
    model = make(replace(FAMILIES[name], options=options))
    before = gradients(model)
    patch(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    after = {n.removeprefix("_orig_mod."): g for n, g in gradients(compiled).items()}
    assert largest_gradient_distance(before, after) < 2e-5
    torch._dynamo.reset()


def compiled_layers(model: nn.Module) -> tuple[torch.Tensor, int]:
    """Logits with each layer compiled by itself, and the number of graphs."""
    torch._dynamo.reset()
    for layer in model.model.layers:
        layer.compile(backend="eager", fullgraph=True)
    torch._dynamo.utils.counters.clear()
    result = logits(model)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    return result, graphs


def test_compiled_layers_have_as_many_graphs_as_before() -> None:
    model = make("qwen3")
    before, graphs = compiled_layers(make("qwen3"))
    patch(model)
    after, graphs_after = compiled_layers(model)
    assert distance(before, after) < 5e-6
    assert graphs_after == graphs


def test_generation_is_unchanged() -> None:
    model = make("qwen3")
    ids = tokens(2, 5)
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 5, "do_sample": False}
    before = model.generate(ids, **options)
    with patch(model), Operators() as operators:
        after = model.generate(ids, **options)
    assert torch.equal(before, after)
    assert set(operators.calls) == {"norm_rotate_table"}


@pytest.mark.parametrize("angles", ["model", "exact"])
def test_copies_and_pickles(angles: str) -> None:
    model = make("gemma3_text")
    before = logits(model)
    patch(model, angles=angles)
    copied = copy.deepcopy(model)
    with Operators() as operators:
        assert distance(before, logits(copied)) < 5e-6
    assert operators.calls["norm_rotate_table"] == 2
    undo(copied)
    assert torch.equal(logits(copied), before)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert distance(before, logits(torch.load(file, weights_only=False))) < 5e-6


def test_weights_are_those_of_the_call() -> None:
    """Changed after patching, in place and as another parameter."""
    model, other = make("qwen3"), make("qwen3")
    patch(model)
    for m in (model, other):
        attention = m.model.layers[0].self_attn
        attention.q_norm.weight.data.mul_(2)
        attention.k_norm.weight = nn.Parameter(torch.full((16,), 0.7))
    assert distance(logits(other), logits(model)) < 5e-6


def test_an_exception_leaves_nothing_behind() -> None:
    model = make("qwen3")
    patch(model)
    before, attributes = logits(model), state(model)
    attention = model.model.layers[1].self_attn

    def fail(*_: Any) -> None:
        raise RuntimeError("between norm and result")

    for module in (attention.k_proj, attention.o_proj):  # before and after the rotation
        handle = module.register_forward_pre_hook(fail)
        with pytest.raises(RuntimeError, match="between"):
            logits(model)
        handle.remove()
        assert torch.equal(logits(model), before)
    assert state(model) == attributes


# ---- What keeps its own norms --------------------------------------------------------------------

KEPT = {
    "phi": ({"qk_layernorm": True, "partial_rotary_factor": 0.5}, "other tensors"),
    "stablelm": ({"qk_layernorm": True, "partial_rotary_factor": 0.5}, "other parameters"),
    "persimmon": ({"partial_rotary_factor": 0.5}, "other tensors"),
    "cohere": ({"use_qk_norm": True}, "weight of one dimension"),
    "gemma4_text": (None, "in one call"),
}


@pytest.mark.parametrize("name", KEPT)
def test_norms_that_are_not_fused(name: str) -> None:
    options, why = KEPT[name]
    family = BY_TYPE[name]
    model = make(family if options is None else replace(family, options=options))
    before, gradients_before = logits(model), gradients(model)
    report = patch(model)
    assert all(row.fused == 0 for row in report.replaced)
    assert any(why in reason for row in report.replaced for reason in row.kept), repr(report)
    assert why in repr(report)
    with Operators() as operators:
        assert distance(before, logits(model)) < family.tolerance
    assert "norm_rotate_table" not in operators.calls
    assert largest_gradient_distance(gradients_before, gradients(model)) < 2e-5


def test_layers_without_rotation_keep_their_norms() -> None:
    model = make("exaone4")
    before = logits(model)
    (row,) = patch(model).replaced
    assert (row.layers, row.fused, row.kept) == (2, 1, ("it does not rotate in this layer",))
    with Operators() as operators:
        assert distance(before, logits(model)) < 5e-6
    assert operators.calls == {"norm_rotate_table": 1}


def test_norms_with_hooks_are_called() -> None:
    model = make("qwen3")
    seen: list[torch.Tensor] = []
    model.model.layers[0].self_attn.q_norm.register_forward_hook(lambda _, __, y: seen.append(y))
    (row,) = patch(model).replaced
    assert (row.fused, len(row.kept)) == (1, 1) and "hooks" in row.kept[0]
    logits(model)
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["qwen3", "olmo2"])
def test_weights_of_another_type(name: str) -> None:
    """float32 weights under autocast: Qwen3's norm then gives float32, unlike the kernel."""
    model = make(name)
    with torch.autocast("cpu", torch.bfloat16):
        with patch(model, norms="own"):
            own = logits(model)
        with patch(model), Operators() as operators:
            fused = logits(model)
    assert torch.equal(own, fused)
    assert operators.calls == ({"rotate_table": 2} if name == "qwen3" else {"norm_rotate_table": 2})


def test_float64_keeps_its_norms() -> None:
    model, other = make("qwen3"), make("qwen3").double()
    patch(model)
    model.double()
    with Operators() as operators:
        assert distance(logits(other), logits(model)) < 1e-12
    assert operators.calls == {"rotate_table": 2}


def test_rejects_wrong_norms() -> None:
    with pytest.raises(ValueError, match='norms must be "fused" or "own"'):
        patch(make("qwen3"), norms="none")  # type: ignore[arg-type]
