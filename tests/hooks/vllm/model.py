# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A small model with random weights, as a folder that vLLM serves: config, weights, tokenizer."""

import pathlib

import tokenizers
import torch
import transformers

WORDS = [f"word{i}" for i in range(250)]
SIZES = {
    "vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 256,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
    "original_max_position_embeddings": 512,
}  # fmt: skip
#: Rotation of a slice of its own, interleaved pairs, YaRN with a factor on the scores.
DEEPSEEK = {
    **{k: v for k, v in SIZES.items() if k not in ("head_dim", "num_key_value_heads")},
    "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 64, "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "moe_intermediate_size": 64, "first_k_dense_replace": 2,
    "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.707},
}  # fmt: skip
CONFIGS = {
    "llama3": lambda: transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "yarn": lambda: transformers.LlamaConfig(**SIZES, rope_parameters=YARN),
    "deepseek": lambda: transformers.DeepseekV2Config(**DEEPSEEK),
}
#: For a prompt of LONG tokens: few heads, since transformers computes it in float64, too.
LONG = 32768
LONG_CONFIG = {
    **SIZES, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "max_position_embeddings": 2 * LONG,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
CONFIGS_OF_LONG = {"long": lambda: transformers.LlamaConfig(**LONG_CONFIG)}


def long_prompt(length: int) -> list[int]:
    return [4 + (7 * i * i + 13 * i) % 250 for i in range(length)]


def write_tokenizer(folder: pathlib.Path) -> None:
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    vocabulary |= {word: 4 + i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>",
    )  # fmt: skip
    fast.save_pretrained(folder)


def write_model(name: str, folder: pathlib.Path) -> None:
    """With weights larger than those of a new model, so that tokens depend on positions."""
    torch.manual_seed(0)
    config = {**CONFIGS, **CONFIGS_OF_LONG}[name]()
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("proj.weight"):
                weight.mul_(6.0)
    model.save_pretrained(folder, safe_serialization=True)
    write_tokenizer(folder)
