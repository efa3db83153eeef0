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
CONFIGS = {
    "llama3": lambda: transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3),
}


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
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).float()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("proj.weight"):
                weight.mul_(6.0)
    model.save_pretrained(folder, safe_serialization=True)
    write_tokenizer(folder)
