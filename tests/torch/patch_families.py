"""Tiny models of transformers, random, one or more of every way to rotate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

transformers.logging.set_verbosity_error()

VOCABULARY = 96

_TINY = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": VOCABULARY,
    "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip

_GPT = {
    "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, "rotary_dim": 8,
    "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip

_MLA = {
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
    "first_k_dense_replace": 1,
}  # fmt: skip

_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


@dataclass(frozen=True)
class Family:
    """How to make a tiny model, and the expected report of patch()."""

    model_type: str
    pairing: str
    options: dict[str, Any] = field(default_factory=dict)
    #: "text": _TINY joins the options; "composite": it joins options["text_config"].
    kind: str = "text"
    auto: str = "AutoModelForCausalLM"
    partial: bool = False
    generates: bool = True
    #: Relative to the largest logit, in float32.
    tolerance: float = 5e-6

    def config(self) -> Any:
        options = dict(self.options)
        if self.kind == "text":
            options = {**_TINY, **options}
        elif self.kind == "gpt":
            options = {**_GPT, **options}
        elif self.kind == "composite":
            options["text_config"] = {**_TINY, **options["text_config"]}
        return transformers.AutoConfig.for_model(self.model_type, **options)

    def make(self, dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        model = getattr(transformers, self.auto).from_config(self.config(), dtype=dtype)
        for name, parameter in model.named_parameters():
            # Larger than by default, so that attention is not flat.
            if parameter.dim() == 2 and "embed_positions" not in name:
                nn.init.normal_(parameter, std=0.15)
        return model.eval()


def _vision(**options: Any) -> dict[str, Any]:
    return {"depth": 2, "embed_dim": 64, "num_heads": 4, "hidden_size": 64, **options}


_QWEN3_VISION = {
    "depth": 2, "hidden_size": 64, "num_heads": 4, "intermediate_size": 64, "out_hidden_size": 64,
    "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
}  # fmt: skip


def _sections(*sections: int, **more: Any) -> dict[str, Any]:
    return {
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(sections), **more,
        }
    }  # fmt: skip


FAMILIES = [
    Family("llama", "half"),
    Family("qwen2", "half"),
    Family("qwen3", "half", {"head_dim": 16}),
    Family("mistral", "half"),
    Family("gemma", "half", {"head_dim": 16}),
    Family("gemma2", "half", {"head_dim": 16}),
    Family("olmo2", "half"),
    Family("granite", "half"),
    Family("starcoder2", "half"),
    Family("falcon", "half", {"alibi": False, "new_decoder_architecture": False}),
    Family("gpt_oss", "half", {"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}),
    Family("esm", "half", {"position_embedding_type": "rotary", "mask_token_id": 3},
           auto="AutoModelForMaskedLM", generates=False),
    Family("nanochat", "half, backward"),
    # part of the head
    Family("gpt_neox", "half", {"rotary_pct": 0.25}, partial=True),
    Family("phi", "half", {"partial_rotary_factor": 0.5}, partial=True),
    Family("stablelm", "half", {"partial_rotary_factor": 0.5}, partial=True),
    Family("persimmon", "half", {"partial_rotary_factor": 0.5}, partial=True),
    Family("nemotron", "half", {"partial_rotary_factor": 0.5}, partial=True),
    Family("glm4_moe", "half", {"head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                                "moe_intermediate_size": 16, "first_k_dense_replace": 1},
           partial=True),
    Family("phi3", "half", {"partial_rotary_factor": 0.5}, partial=True),
    # interleaved
    Family("cohere", "interleaved"),
    Family("cohere2", "interleaved"),
    Family("ernie4_5", "interleaved", {"head_dim": 16}),
    Family("helium", "interleaved", {"head_dim": 16}),
    Family("glm", "interleaved", {"head_dim": 16}, partial=True),
    Family("glm4", "interleaved", {"head_dim": 16}, partial=True),
    Family("gptj", "interleaved", kind="gpt", partial=True),
    Family("codegen", "interleaved", {"n_inner": 64}, kind="gpt", partial=True),
    Family("roformer", "interleaved", {"embedding_size": 64, "is_decoder": True}),
    # complex tables
    Family("llama4_text", "interleaved", {"head_dim": 16, "intermediate_size_mlp": 64,
                                          "num_local_experts": 2, "num_experts_per_tok": 1}),
    Family("deepseek_v2", "interleaved", _MLA),
    # MLA; read interleaved, written in halves
    Family("deepseek_v3", "interleaved, output half", _MLA),
    Family("youtu", "interleaved, output half", _MLA),
    # an indexer beside the attention, each with its own pairing
    Family("deepseek_v32", "interleaved, output half",
           {**_MLA, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 4}),
    # the last elements of a head
    Family("deepseek_v4", "interleaved", {"head_dim": 16, "qk_rope_head_dim": 8}, partial=True),
    # layer types with ropes of their own
    Family("gemma3_text", "half", {"head_dim": 16, "sliding_window_pattern": 2}),
    Family("gemma4_text", "half", {"head_dim": 16, "global_head_dim": 32,
                                   "hidden_size_per_layer_input": 8,
                                   "vocab_size_per_layer_input": VOCABULARY}),
    Family("olmo3", "half", {"layer_types": ["sliding_attention", "full_attention"]}),
    Family("modernbert", "half", {"global_attn_every_n_layers": 2, "cls_token_id": 1,
                                  "sep_token_id": 2},
           auto="AutoModelForMaskedLM", generates=False),
    Family("granite_swa", "half", {"layer_types": ["full_attention", "sliding_attention"]}),
    # several axes
    Family("qwen2_vl", "half", {"text_config": _sections(2, 3, 3), "vision_config": _vision()},
           kind="composite", auto="AutoModelForImageTextToText"),
    Family("qwen2_5_vl", "half",
           {"text_config": _sections(2, 3, 3),
            "vision_config": {"depth": 2, "hidden_size": 64, "num_heads": 4,
                              "intermediate_size": 64, "out_hidden_size": 64}},
           kind="composite", auto="AutoModelForImageTextToText"),
    Family("qwen3_vl", "half",
           {"text_config": {**_sections(4, 2, 2), "head_dim": 16}, "vision_config": _QWEN3_VISION},
           kind="composite", auto="AutoModelForImageTextToText"),
    Family("glm4v", "interleaved",
           {"text_config": {**_sections(2, 1, 1, partial_rotary_factor=0.5)},
            "vision_config": {"depth": 2, "hidden_size": 64, "num_heads": 4,
                              "intermediate_size": 64, "out_hidden_size": 64}},
           kind="composite", auto="AutoModelForImageTextToText", partial=True),
]  # fmt: skip

BY_TYPE = {family.model_type: family for family in FAMILIES}


def tokens(batch: int = 2, length: int = 11, seed: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, (batch, length), generator=generator)
