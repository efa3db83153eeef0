"""rotary.torch.patch changes one model, entirely or not at all, and can be undone."""

from __future__ import annotations

import copy
import io
import sys
from pathlib import Path

import pytest
import torch
import transformers
from patch_families import BY_TYPE, Family, tokens
from torch import Tensor, nn

from rotary.torch.patching import patch, undo
from rotary.torch.patching.probe import classify


@torch.no_grad()
def logits(model: nn.Module) -> Tensor:
    return model(tokens()).logits


def distance(one: Tensor, other: Tensor) -> float:
    return float((one.float() - other.float()).abs().max() / one.float().abs().max())


def state(model: nn.Module) -> dict[str, list[str]]:
    return {path: sorted(vars(module)) for path, module in model.named_modules()}


def llama() -> nn.Module:
    return BY_TYPE["llama"].make()


def modeling(name: str) -> object:
    return sys.modules[f"transformers.models.{name}.modeling_{name}"]


def test_other_models_are_unchanged() -> None:
    model, other = llama(), llama()
    function = modeling("llama").apply_rotary_pos_emb
    method = type(model.model.layers[0].self_attn).forward
    before, names = logits(other), state(other)
    patch(model)
    assert modeling("llama").apply_rotary_pos_emb is function
    assert type(model.model.layers[0].self_attn).forward is method
    assert torch.equal(logits(other), before)
    assert state(other) == names


def test_undo_leaves_nothing() -> None:
    model = llama()
    names = state(model)
    for angles in ("model", "exact"):
        report = patch(model, angles=angles)
        assert state(model) != names
        report.undo()
        report.undo()
        assert state(model) == names


def test_a_part_of_a_model() -> None:
    model = BY_TYPE["qwen2_vl"].make()
    report = patch(model.model.language_model)
    assert [row.caller for row in report.replaced] == ["Qwen2VLAttention"]
    assert "forward" not in vars(model.model.visual.blocks[0].attn)


def test_patched_parts_of_one_file_are_independent() -> None:
    one, other = BY_TYPE["qwen2_vl"].make().model, BY_TYPE["qwen2_vl"].make().model
    patch(one.visual)
    patch(other.language_model)
    for attention in (one.visual.blocks[0].attn, other.language_model.layers[0].self_attn):
        scope = attention.forward.__func__.__globals__
        for name in ("apply_rotary_pos_emb", "apply_rotary_pos_emb_vision"):
            assert scope[name] is not getattr(modeling("qwen2_vl"), name)


def test_rejects_patching_twice() -> None:
    model = llama()
    patch(model)
    with pytest.raises(ValueError, match="patched already"):
        patch(model)


def test_copies_are_patched_and_can_be_undone() -> None:
    model = llama()
    before = logits(model)
    patch(model)
    copied = copy.deepcopy(model)
    attention = copied.model.layers[0].self_attn
    assert attention.forward.__self__ is attention
    assert distance(before, logits(copied)) < 5e-6
    undo(copied)
    assert torch.equal(logits(copied), before)
    assert "forward" in vars(model.model.layers[0].self_attn)


@pytest.mark.parametrize("angles", ["model", "exact"])
def test_pickles(angles: str) -> None:
    model = llama()
    before = logits(model)
    patch(model, angles=angles)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert distance(before, logits(torch.load(file, weights_only=False))) < 5e-6


def test_save_pretrained(tmp_path: Path) -> None:
    model = llama()
    before = logits(model)
    patch(model)
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(logits(loaded), before)


def test_casts_after_patching() -> None:
    model, other = llama(), llama()
    patch(model)
    model.double(), other.double()
    assert distance(logits(other), logits(model)) < 1e-12
    model.bfloat16(), other.bfloat16()
    assert distance(logits(other), logits(model)) < 4e-2


@pytest.mark.parametrize("angles", ["model", "exact"])
def test_a_wrapped_forward(angles: str) -> None:
    """As accelerate does it, which keeps the method under another name."""
    model = llama()
    before = logits(model)
    wrapped = [layer.self_attn for layer in model.model.layers] + [model.model.rotary_emb]
    for module in wrapped:
        module._old_forward = module.forward
        module.forward = lambda *args, _to=module, **kwargs: _to._old_forward(*args, **kwargs)
    names = state(model)
    report = patch(model, angles=angles)
    attention = wrapped[0]
    assert attention._old_forward.__func__ is not type(attention).forward
    assert distance(before, logits(model)) < 5e-6
    report.undo()
    assert attention._old_forward.__func__ is type(attention).forward
    assert state(model) == names
    assert torch.equal(logits(model), before)


def test_unsupported_shapes_use_the_models_own_function() -> None:
    """Fewer rows than tokens: the model's own function broadcasts."""
    model = llama()
    patch(model)
    apply = model.model.layers[0].self_attn.forward.__func__.__globals__["apply_rotary_pos_emb"]
    q, k = torch.randn(2, 3, 5, 16), torch.randn(2, 1, 5, 16)
    cos, sin = torch.randn(1, 1, 16), torch.randn(1, 1, 16)
    expected = modeling("llama").apply_rotary_pos_emb(q, k, cos, sin)
    assert all(torch.equal(x, y) for x, y in zip(expected, apply(q, k, cos, sin), strict=True))


# ---- Exact angles --------------------------------------------------------------------------------

EXACT = ["llama", "cohere", "gpt_oss", "llama4_text", "gemma3_text", "gemma4_text", "qwen2_vl",
         "deepseek_v3", "nanochat"]  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact_angles_give_the_same_logits_near_zero(name: str) -> None:
    family = BY_TYPE[name]
    model = family.make()
    before = logits(model)
    with patch(model, angles="exact") as report:
        assert report.tables
        assert distance(before, logits(model)) < family.tolerance
    assert torch.equal(logits(model), before)


def test_exact_angles_are_exact() -> None:
    model = llama()
    rotary = model.model.rotary_emb
    positions = torch.tensor([[0, 131_071, 1_048_575, 10_485_759, 2**31 - 1]])
    pairs = torch.arange(8, dtype=torch.float64)
    angle = positions[..., None].double() * 10000.0 ** (-pairs / 8)
    x = torch.empty(0, dtype=torch.bfloat16)
    own = rotary(torch.empty(0), positions)[0][..., :8]
    patch(model, angles="exact")
    model.bfloat16()  # the frequencies are no tensor
    cos, sin = rotary(x, positions)
    # float64 holds angles of 2^31 rad to 2.4e-7.
    assert (cos[..., :8] - angle.cos()).abs().max() < 5e-7
    assert (sin[..., 8:] - angle.sin()).abs().max() < 5e-7
    assert (own - angle.cos()).abs().max() > 0.1


def test_exact_angles_reject_ropes_that_depend_on_the_length() -> None:
    parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    model = Family("llama", "half", {"rope_parameters": parameters}).make()
    names = state(model)
    with pytest.raises(ValueError, match=r"rotary_emb.*depend on the length"):
        patch(model, angles="exact")
    assert state(model) == names
    before = logits(model)
    patch(model)
    assert distance(before, logits(model)) < 5e-6


def test_exact_angles_reject_frequencies_that_differ_from_the_config() -> None:
    model = llama()
    model.model.rotary_emb.inv_freq.mul_(2)
    with pytest.raises(ValueError, match="not those of the model's config"):
        patch(model, angles="exact")
    patch(model)  # the model's own angles are taken as they are


def test_exact_angles_need_a_rotary_module() -> None:
    with pytest.raises(ValueError, match="needs a module"):
        patch(BY_TYPE["gptj"].make(), angles="exact")


# ---- What is refused -----------------------------------------------------------------------------

_SPEECH = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "conv_dim": [8], "conv_kernel": [2], "conv_stride": [2], "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2, "position_embeddings_type": "rotary",
}  # fmt: skip
_VIDEO = {
    "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "crop_size": 32,
    "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 2,
}  # fmt: skip
_HEADS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}

REFUSED = [
    ("bert", {**_HEADS, "intermediate_size": 64}, "calls no function that is known"),
    ("wav2vec2-conformer", _SPEECH, "self_attn.*rotates by itself"),
    ("vjepa2", _VIDEO, "rotates"),
    ("esm", {**_HEADS, "intermediate_size": 64, "vocab_size": 96, "pad_token_id": 0,
             "position_embedding_type": "absolute"}, "no module was found that makes"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "why"), REFUSED, ids=[r[0] for r in REFUSED])
def test_rejects_unknown_functions(name: str, options: dict[str, object], why: str) -> None:
    config = transformers.AutoConfig.for_model(name, **options)
    model = transformers.AutoModel.from_config(config)
    names = state(model)
    with pytest.raises(ValueError, match=f"(?s)\\[patch\\].*{why}.*Nothing was replaced"):
        patch(model)
    assert state(model) == names


def test_rejects_functions_that_rotate_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        return q * cos.unsqueeze(1) + q.flip(-1) * sin.unsqueeze(1), k

    monkeypatch.setattr(modeling("llama"), "apply_rotary_pos_emb", apply_rotary_pos_emb)
    model = llama()
    names = state(model)
    with pytest.raises(ValueError, match=r"layers\.0\.self_attn.*in no way that is known"):
        patch(model)
    assert state(model) == names


def test_rejects_tables_that_do_not_rotate_pairs() -> None:
    """Both members of a pair must rotate by one angle."""
    model = llama()
    forward = model.model.rotary_emb.forward

    def uneven(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = forward(x, position_ids)
        return cos, torch.cat([sin[..., :8], 2 * sin[..., 8:]], -1)

    model.model.rotary_emb.forward = uneven
    with pytest.raises(ValueError, match=r"cos and sin of model.rotary_emb differs"):
        patch(model)


def test_rejects_models_on_meta() -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(BY_TYPE["llama"].config())
    with pytest.raises(ValueError, match="on meta"):
        patch(model)


def test_rejects_replaced_methods() -> None:
    model = llama()
    model.model.layers[1].self_attn.forward = lambda *_, **__: None
    with pytest.raises(ValueError, match=r"layers\.1\.self_attn.*method of its own"):
        patch(model)
    assert "forward" not in vars(model.model.layers[0].self_attn)


def test_rejects_wrong_angles() -> None:
    with pytest.raises(ValueError, match='"model" or "exact"'):
        patch(llama(), angles="double")  # type: ignore[arg-type]


# ---- What functions do ---------------------------------------------------------------------------


def _partial(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]

    def rotate(x: Tensor) -> Tensor:
        a, b = x[..., :width].chunk(2, -1)
        return torch.cat([x[..., :width] * cos + torch.cat([-b, a], -1) * sin, x[..., width:]], -1)

    return rotate(q), rotate(k)


def _trailing(x, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    kept, x = x[..., : -2 * cos.shape[-1]], x[..., -2 * cos.shape[-1] :]
    a, b = x[..., ::2], x[..., 1::2]
    rotated = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    return torch.cat([kept, rotated], -1)


def _scaled(q, k, cos, sin, unsqueeze_dim=1):
    return tuple(1.001 * x for x in _partial(q, k, cos, sin, unsqueeze_dim))


def _other_parameters(states, angles):
    return states


def test_functions_are_classified_by_their_results() -> None:
    _, behaviour = classify(_partial)
    assert (behaviour.pairing, behaviour.part, behaviour.columns) == ("half", "leading", "halves")
    _, behaviour = classify(_trailing)
    assert (behaviour.pairing, behaviour.part) == ("interleaved", "trailing")
    assert "in no way that is known" in classify(_scaled)
    assert "('states', 'angles') are not known" in classify(_other_parameters)
