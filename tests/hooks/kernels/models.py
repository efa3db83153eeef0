# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Small models of transformers, and kernels in them; on a GPU by scripts/gpu_hooks.sh."""

import contextlib
import importlib
import os
from pathlib import Path

import torch
import transformers
from kernels import LocalLayerRepository, Mode, kernelize, use_kernel_mapping
from transformers.integrations import use_kernel_forward_from_hub, use_kernelized_func

DEVICE = os.environ.get("ROTARY_HOOK_DEVICE", "cpu")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    **{f"{name}_token_id": 1 for name in ("pad", "bos", "eos", "cls", "sep")},
}

#: Model types: a table of twice the pairs, results cast back (OLMo 2), q and k normalised before
#: (Qwen 3), a table of the pairs alone (GPT-OSS), an encoder that rotates in float32 (ModernBERT),
#: a slice of the head that the model cuts out (Phi).
MODELS = {
    "llama": {},
    "olmo2": {},
    "qwen3": {},
    "gpt_oss": {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 8},
    "modernbert": {"num_key_value_heads": None, "head_dim": None, "reference_compile": False},
    "phi": {"head_dim": None, "partial_rotary_factor": 0.5},
}
#: Model types that transformers does not offer to `kernels`, with the layer for their rotation: a
#: slice of the head that the rotation cuts out, pairs of halves and interleaved.
NOT_OFFERED = {
    "gpt_neox": ("apply_rotary_partial_transformers", {"head_dim": None, "rotary_pct": 0.5}),
    "glm": ("apply_rotary_interleaved_transformers", {"partial_rotary_factor": 0.5}),
}


def make(model_type, seed=0):
    torch.manual_seed(seed)
    own = MODELS[model_type] if model_type in MODELS else NOT_OFFERED[model_type][1]
    options = {k: v for k, v in {**SIZES, **own}.items() if v is not None}
    config = transformers.AutoConfig.for_model(model_type, **options)
    return transformers.AutoModel.from_config(config).to(DEVICE).float().train()


def offer(model_type, monkeypatch):
    """Decorates rotation and attention of a modelling file as transformers does in others."""
    name = f"transformers.models.{model_type}.modeling_{model_type}"
    module = importlib.import_module(name)
    rotation = use_kernel_forward_from_hub("rotary_pos_emb")(module.apply_rotary_pos_emb)
    monkeypatch.setattr(module, "apply_rotary_pos_emb", rotation)
    (attention,) = (n for n in vars(module) if n.endswith("Attention"))
    subclass = type(attention, (getattr(module, attention),), {})
    monkeypatch.setattr(module, attention, use_kernelized_func(rotation)(subclass))


@contextlib.contextmanager
def on_kernel(model, repository, mode=Mode.TRAINING):
    """The model's rotation by `repository`; afterwards by its own code, which all models share."""
    with use_kernel_mapping({"rotary_pos_emb": {DEVICE: repository}}, inherit_mapping=False):
        kernelize(model, mode=mode, device=DEVICE)
    try:
        yield
    finally:
        with use_kernel_mapping({}, inherit_mapping=False):
            kernelize(model, mode=mode, device=DEVICE)


def repository(folder, layer="apply_rotary_transformers"):
    return LocalLayerRepository(Path(folder), layer_name=layer)


def step(model):
    """Hidden states and the gradients of all parameters of one training step."""
    model.zero_grad()
    ids = torch.randint(0, 64, (2, 13), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    states = model(input_ids=ids).last_hidden_state
    weights = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
    (states * weights.to(DEVICE)).sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return states.detach(), grads
