"""rotary.torch.patch: models of transformers give the same results on our kernels."""

from __future__ import annotations

import pytest
import torch
import transformers
from patch_families import BY_TYPE, FAMILIES, Family, tokens
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from rotary.torch.patching import patch

ALL = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.model_type)


class Calls(TorchDispatchMode):
    """Counts the calls of our operators."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.namespace == "rotary"
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def logits(model: nn.Module, ids: Tensor | None = None) -> Tensor:
    return model(tokens() if ids is None else ids).logits


def gradients(model: nn.Module) -> dict[str, Tensor]:
    model.zero_grad()
    model(tokens()).logits.float().square().mean().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def distance(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max() / one.float().abs().max())


def largest_gradient_distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert one.keys() == other.keys()
    largest = max(float(g.abs().max()) for g in one.values())
    return max(float((one[n] - other[n]).abs().max()) for n in one) / largest


@ALL
def test_logits_and_gradients_are_unchanged(family: Family) -> None:
    model = family.make()
    before, gradients_before = logits(model), gradients(model)
    report = patch(model)
    with Calls() as calls:
        after = logits(model)
    assert calls.count >= 2, "the kernel was not called once a layer"
    assert distance(before, after) < family.tolerance
    assert largest_gradient_distance(gradients_before, gradients(model)) < 2e-5
    report.undo()
    with Calls() as calls:
        assert torch.equal(logits(model), before)
    assert calls.count == 0


@ALL
def test_report_says_what_was_replaced(family: Family) -> None:
    model = family.make()
    with patch(model) as report:
        assert family.pairing in {row.pairing for row in report.replaced}
        assert all(row.difference < 1e-6 for row in report.replaced)
        assert all(row.layers == 2 for row in report.replaced)
        assert family.partial == any(row.partial for row in report.replaced)
        assert all(row.function in repr(report) for row in report.replaced)
    assert "undone" in repr(report)


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.generates], ids=lambda family: family.model_type
)
def test_generation_with_cache_is_unchanged(family: Family) -> None:
    model = family.make()
    ids = tokens(2, 5)
    options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 5, "do_sample": False}
    before = model.generate(ids, **options)
    with patch(model), Calls() as calls:
        after = model.generate(ids, **options)
    assert torch.equal(before, after)
    assert calls.count >= 2 * 5


def test_generation_with_left_padding_is_unchanged() -> None:
    model = BY_TYPE["llama"].make()
    ids = tokens(2, 6)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    options = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False}
    before = model.generate(ids, **options)
    with patch(model):
        assert torch.equal(before, model.generate(ids, **options))


#: Error in ulp of attention's inputs, after two layers.
LOW_PRECISION = {torch.bfloat16: 4e-2, torch.float16: 5e-3}


@pytest.mark.parametrize("dtype", LOW_PRECISION, ids=str)
@pytest.mark.parametrize(
    "name", ["llama", "olmo2", "gpt_neox", "cohere", "glm", "gptj", "llama4_text", "deepseek_v3",
             "nanochat", "qwen2_vl"],
)  # fmt: skip
def test_low_precision(name: str, dtype: torch.dtype) -> None:
    model = BY_TYPE[name].make(dtype)
    before = logits(model)
    with patch(model):
        after = logits(model)
    assert after.dtype == before.dtype
    assert distance(before, after) < LOW_PRECISION[dtype]


def test_autocast() -> None:
    model = BY_TYPE["llama"].make()
    with torch.autocast("cpu", torch.bfloat16):
        before = logits(model)
        with patch(model):
            after = logits(model)
    assert distance(before, after) < LOW_PRECISION[torch.bfloat16]


@pytest.mark.parametrize("reentrant", [False, True], ids=["saved-tensors", "reentrant"])
@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "gemma3_text"])
def test_gradient_checkpointing(name: str, reentrant: bool) -> None:
    model = BY_TYPE[name].make().train()
    before = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    with patch(model), Calls() as calls:
        after = gradients(model)
    assert calls.count >= 6, "forward, forward again and backward, in two layers"
    assert largest_gradient_distance(before, after) < 2e-5


_TOWER = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def tower(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A tiny vision tower, and what to call it with."""
    generator = torch.Generator().manual_seed(1)
    if name == "llama4":
        config = transformers.Llama4VisionConfig(
            **_TOWER, intermediate_size=256, image_size=28, patch_size=7, vision_output_dim=64,
            projector_input_dim=64, projector_output_dim=64,
        )  # fmt: skip
        model = transformers.Llama4VisionModel(config)
        return model, (torch.randn(2, 3, 28, 28, generator=generator),)
    if name == "pixtral":
        config = transformers.PixtralVisionConfig(
            **_TOWER, intermediate_size=64, image_size=32, patch_size=8
        )
        model = transformers.PixtralVisionModel(config)
        pixels = torch.randn(1, 3, 32, 24, generator=generator)
        return model, (pixels, torch.tensor([[32, 24]]))
    if name == "dinov3":
        config = transformers.DINOv3ViTConfig(**_TOWER, intermediate_size=64, patch_size=8)
        return transformers.DINOv3ViTModel(config), (
            torch.randn(2, 3, 24, 32, generator=generator),
        )
    pixels = torch.randn(16, 3 * 2 * 14 * 14, generator=generator)
    return BY_TYPE[name].make().model.visual, (pixels, torch.tensor([[1, 4, 4]]))


#: Whether positions are given: Llama 4 keeps a table of its grid, DINOv3 makes one of the image.
TOWERS = {
    "qwen2_vl": True, "qwen2_5_vl": True, "pixtral": True, "llama4": False, "dinov3": False,
}  # fmt: skip


@pytest.mark.parametrize("name", TOWERS)
@torch.no_grad()
def test_vision_towers(name: str) -> None:
    model, given = tower(name)
    model.eval()
    before = model(*given).last_hidden_state
    for angles in ("model", "exact") if TOWERS[name] else ("model",):
        with patch(model, angles=angles), Calls() as calls:
            after = model(*given).last_hidden_state
        assert calls.count >= 2
        assert distance(before, after) < 5e-6


def test_image_positions_reach_the_kernel() -> None:
    """M-RoPE with positions that differ between the axes."""
    for name in ("qwen2_vl", "qwen3_vl", "glm4v"):
        model = BY_TYPE[name].make()
        positions = torch.randint(0, 50, (3, 2, 11), generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            before = model(tokens(), position_ids=positions).logits
            for angles in ("model", "exact"):
                with patch(model, angles=angles):
                    after = model(tokens(), position_ids=positions).logits
                assert distance(before, after) < 5e-6
