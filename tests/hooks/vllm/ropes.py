# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A rotation of every rotary class of vLLM, and the same as a rotary.Rope."""

import contextlib
import dataclasses
import types

from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers import rotary_embedding as package
from vllm.model_executor.layers.rotary_embedding import ernie45_vl_rope

import rotary

HEAD, ROWS, THETA = 64, 4096, 10000.0


@dataclasses.dataclass(frozen=True)
class Case:
    cls: str  # vLLM's
    parameters: dict = dataclasses.field(default_factory=dict)  # of get_rope
    rope: dict = dataclasses.field(default_factory=dict)  # of rotary.Rope
    is_neox: bool = True
    axes: int = 1

    def expected(self) -> rotary.Rope:
        options = {"head_dim": HEAD, "theta": THETA, **self.rope}
        return rotary.Rope(pairing="half" if self.is_neox else "interleaved", **options)


YARN = {"factor": 4.0, "original_max_position_embeddings": 512}
OUR_YARN = rotary.Yarn(factor=4.0, original_context=512)
DEEPSEEK = {
    "rope_type": "deepseek_yarn", "factor": 8.0, "original_max_position_embeddings": 512,
    "mscale": 1.0, "mscale_all_dim": 0.707,
}  # fmt: skip
OUR_DEEPSEEK = rotary.Yarn(factor=8.0, original_context=512, mscale=1.0, mscale_all_dim=0.707)
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
SHORT, LONG = [1.0 + i / 64 for i in range(32)], [1.0 + i for i in range(32)]
CASES = {
    "plain": Case("RotaryEmbedding"),
    "interleaved": Case("RotaryEmbedding", is_neox=False),
    "partial": Case("RotaryEmbedding", {"partial_rotary_factor": 0.5}, {"rotary_dim": 32}),
    "linear": Case(
        "LinearScalingRotaryEmbedding",
        {"rope_type": "linear", "factor": 4.0},
        {"scaling": rotary.Linear(factor=4.0)},
    ),
    "ntk": Case(
        "NTKScalingRotaryEmbedding",
        {"rope_type": "ntk", "factor": 8.0},
        {"scaling": rotary.Ntk(factor=8.0)},
    ),
    "ntk, mixed": Case(
        "NTKScalingRotaryEmbedding",
        {"rope_type": "ntk", "factor": 8.0, "mixed_b": 0.625},
        {"scaling": rotary.Ntk(factor=8.0, mixed_b=0.625)},
    ),
    "dynamic": Case(
        "DynamicNTKScalingRotaryEmbedding",
        {"rope_type": "dynamic", "factor": 2.0, "max_trained_positions": 1024},
        {"scaling": rotary.DynamicNtk(factor=2.0, original_context=1024), "context": ROWS},
    ),
    "dynamic, alpha": Case(
        "DynamicNTKAlphaRotaryEmbedding",
        {"rope_type": "dynamic", "alpha": 1000.0},
        {"scaling": rotary.NtkAlpha(alpha=1000.0)},
    ),
    "llama3": Case(
        "Llama3RotaryEmbedding",
        dict(rope_type="llama3", factor=8.0, original_max_position_embeddings=512, **LLAMA3),
        {"scaling": rotary.Llama3(factor=8.0, original_context=512, **LLAMA3)},
    ),
    "yarn": Case(
        "YaRNScalingRotaryEmbedding", dict(rope_type="yarn", **YARN), {"scaling": OUR_YARN}
    ),
    "deepseek": Case(
        "DeepseekScalingRotaryEmbedding", DEEPSEEK, {"scaling": OUR_DEEPSEEK}, is_neox=False
    ),
    "deepseek v4": Case(
        "DeepseekV4ScalingRotaryEmbedding",
        {**DEEPSEEK, "is_deepseek_v4": True, "partial_rotary_factor": 0.5},
        {"scaling": OUR_DEEPSEEK, "rotary_dim": 32, "rotary_offset": 32},
        is_neox=False,
    ),
    "gemma4": Case(
        "Gemma4RotaryEmbedding",
        {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        {"scaling": rotary.Proportional(fraction=0.25)},
    ),
    "mrope": Case(
        "MRotaryEmbedding",
        {"mrope_section": [8, 12, 12]},
        {"axes": rotary.Mrope(sections=(8, 12, 12))},
        axes=3,
    ),
    "mrope, interleaved": Case(
        "MRotaryEmbedding",
        {"mrope_section": [12, 10, 10], "mrope_interleaved": True},
        {"axes": rotary.Mrope(sections=(12, 10, 10), order="interleaved")},
        axes=3,
    ),
    "mrope, yarn": Case(
        "MRotaryEmbedding",
        dict(rope_type="yarn", mrope_section=[8, 12, 12], **YARN),
        {"axes": rotary.Mrope(sections=(8, 12, 12)), "scaling": OUR_YARN},
        axes=3,
    ),
    "bailing": Case(
        "BailingMRotaryEmbedding",
        {"rope_type": "bailing_mrope", "mrope_section": [12, 10, 10]},
        {"axes": rotary.Mrope(sections=(12, 10, 10), order="spatial_first")},
        is_neox=False,
        axes=3,
    ),
    "ernie": Case(
        "Ernie4_5_VLRotaryEmbedding",
        {"mrope_section": [10, 10, 12]},
        {"axes": rotary.Mrope(sections=(12, 10, 10), order="spatial_first")},
        is_neox=False,
        axes=3,
    ),
    "pangu": Case(
        "MRotaryEmbeddingInterleaved",
        {"rope_type": "openpangu", "mrope_section": [12, 10, 10], "mrope_interleaved": True},
        # One of three axes in turn, the first also last: [0 1 2 0 1 2 ... 0 0].
        {"axes": rotary.Mrope(sections=(12, 10, 10), order="interleaved")},
        axes=3,
    ),
    "longrope": Case(
        "Phi3LongRoPEScaledRotaryEmbedding",
        {
            "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
            "original_max_position_embeddings": 512,
        },
        {
            "scaling": rotary.LongRope(
                short_factor=SHORT, long_factor=LONG, original_context=512, factor=ROWS / 512
            ),
            "context": ROWS,
        },
    ),
}  # fmt: skip


@contextlib.contextmanager
def vllm_config(max_model_len=ROWS):
    config = VllmConfig()
    config.model_config = types.SimpleNamespace(max_model_len=max_model_len)
    with set_current_vllm_config(config):
        yield


def make(case, dtype, max_position=ROWS):
    """The module that a model of vLLM gets now."""
    package._ROPE_DICT.clear()
    with vllm_config():
        if case.cls == "Ernie4_5_VLRotaryEmbedding":  # its model constructs it
            section = case.parameters["mrope_section"]
            return ernie45_vl_rope.Ernie4_5_VLRotaryEmbedding(
                HEAD, HEAD, max_position, THETA, case.is_neox, dtype, section
            )
        # M-RoPE with YaRN takes the enlarged table's length for the original context: without it.
        return package.get_rope(
            HEAD, max_position, case.is_neox, {"rope_theta": THETA, **case.parameters}, dtype,
            mrope_positions_factor=1,
        )  # fmt: skip
