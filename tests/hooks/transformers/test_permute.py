# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary permute: a permuted model has the logits of the original, in transformers.

Families with a key for the pairing (DeepSeek-V3) are loaded as they are. Others rotate by the
function of another family of transformers that has the pairing: GLM's is interleaved, that of
GLM-4-MoE half.
"""

import importlib
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.glm.modeling_glm import apply_rotary_pos_emb as interleaved
from transformers.models.glm4_moe.modeling_glm4_moe import apply_rotary_pos_emb as half

COMMAND = os.environ["ROTARY_COMMAND"]
SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 2,  # no experts, which take no float64
    "num_key_value_heads": 4,
}


def half_of_repeated(q, k, cos, sin, unsqueeze_dim=1):
    """For Cohere, whose cos and sin are repeated pair by pair."""
    cos, sin = (torch.cat([x[..., ::2]] * 2, dim=-1) for x in (cos, sin))
    return half(q, k, cos, sin, unsqueeze_dim)


# Their norms of q and k, or their rotation, compute in float32 whatever the model's type is.
IN_FLOAT32 = {"qwen3", "olmo2", "gemma3_text", "cohere", "modernbert", "ernie4_5"}

#          model_type: (changes, rotation of the permuted model; None: by its config)
FAMILIES = {
    "llama": ({}, interleaved),
    "qwen2": ({}, interleaved),
    "qwen3": ({"head_dim": 32}, interleaved),
    "olmo2": ({}, interleaved),
    "phi": ({"partial_rotary_factor": 0.5}, interleaved),
    "stablelm": ({"partial_rotary_factor": 0.25, "qk_layernorm": True}, interleaved),
    "gemma3_text": ({"head_dim": 16, "num_hidden_layers": 6}, interleaved),
    "smollm3": ({"num_hidden_layers": 4}, interleaved),
    "gpt_neox": ({"rotary_pct": 0.25, "num_key_value_heads": 4}, interleaved),
    "phi3": ({}, interleaved),
    "modernbert": ({"num_key_value_heads": 4}, interleaved),
    "glm": ({"head_dim": 16}, half),
    "helium": ({"head_dim": 16}, half),
    "ernie4_5": ({"head_dim": 16}, half),
    "cohere": ({"use_qk_norm": True}, half_of_repeated),
    "deepseek_v3": (LATENT, None),
}


def load(folder):
    config = AutoConfig.from_pretrained(folder)
    auto = AutoModelForMaskedLM if config.model_type == "modernbert" else AutoModelForCausalLM
    return auto.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()


@torch.no_grad()
def logits(folder):
    tokens = torch.arange(3, 43).reshape(2, 20)
    return load(folder)(tokens).logits


def make(folder, model_type, changes):
    torch.manual_seed(7)
    config = AutoConfig.for_model(model_type, **{**SIZES, **changes})
    auto = AutoModelForMaskedLM if model_type == "modernbert" else AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.float32)
    # Norms and biases start as ones and zeros, which no permutation could be seen in.
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 or "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.save_pretrained(folder, max_shard_size="60KB")


def permute(*arguments):
    done = subprocess.run([COMMAND, "permute", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("model_type", FAMILIES)
def test_permuted_model_has_the_same_logits(tmp_path, monkeypatch, model_type):
    changes, rotation = FAMILIES[model_type]
    model, out, back = (tmp_path / name for name in ("model", "out", "back"))
    make(model, model_type, changes)
    shards = sorted(path.name for path in model.glob("*.safetensors"))
    assert len(shards) > 1
    expected = logits(model)
    to, origin = ("interleaved", "half") if rotation is interleaved else ("half", "interleaved")
    permute(model, "--to", to, "-o", out)
    if rotation is not None:
        wrong = (logits(out) - expected).abs().max() / expected.abs().max()
        assert wrong > 1e-2  # the pairing matters here
        module = importlib.import_module(f"transformers.models.{module_of(model_type)}")
        monkeypatch.setattr(module, "apply_rotary_pos_emb", rotation)
    error = (logits(out) - expected).abs().max() / expected.abs().max()
    assert error < (1e-5 if model_type in IN_FLOAT32 else 1e-10)
    permute(out, "--from", to, "--to", origin, "-o", back)
    for name in shards:
        assert (back / name).read_bytes() == (model / name).read_bytes()


def module_of(model_type):
    folder = model_type.removesuffix("_text")
    return f"{folder}.modeling_{folder}"


def test_every_projection_to_q_and_k_has_moved(tmp_path):
    make(tmp_path / "model", "qwen3", {"head_dim": 32})
    done = permute(tmp_path / "model", "--to", "interleaved", "-o", tmp_path / "out")
    assert "8 tensors of q and k in 2 attention layers" in done.stdout
    moved = set()
    for path in (tmp_path / "model").glob("*.safetensors"):
        after = load_file(tmp_path / "out" / path.name)
        moved |= {key for key, x in load_file(path).items() if not torch.equal(x, after[key])}
    parts = ("q_proj.weight", "k_proj.weight", "q_norm.weight", "k_norm.weight")
    assert moved == {f"model.layers.{i}.self_attn.{part}" for i in (0, 1) for part in parts}
