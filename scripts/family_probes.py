# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotations of transformers that family_tables.py has no rule for, each run by its own code.

Their tables come from the size of an input, or from a function, or the rotation is no rotation; for
those, `run` returns a number that says so, measured on what transformers computes.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from transformers.models.clvp import modeling_clvp
from transformers.models.codegen import modeling_codegen
from transformers.models.dinov3_vit import modeling_dinov3_vit
from transformers.models.efficientloftr import modeling_efficientloftr
from transformers.models.eomt_dinov3 import modeling_eomt_dinov3
from transformers.models.esmfold2 import modeling_esmfold2
from transformers.models.gptj import modeling_gptj
from transformers.models.hunyuan_vl import modeling_hunyuan_vl
from transformers.models.lightglue import modeling_lightglue
from transformers.models.llama4 import modeling_llama4
from transformers.models.musicflamingo import modeling_musicflamingo
from transformers.models.roformer import modeling_roformer
from transformers.models.sapiens2 import modeling_sapiens2
from transformers.models.seamless_m4t import modeling_seamless_m4t
from transformers.models.vjepa2 import modeling_vjepa2
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer

FIRST = list(range(8))

# Classes that are run here.
MODULES = (
    "ClvpRotaryPositionalEmbedding",
    "DINOv3ViTRopePositionEmbedding",
    "EfficientLoFTRRotaryEmbedding",
    "EomtDinov3RotaryEmbedding",
    "EsmFold2RotaryEmbedding",
    "HunYuanVLRotaryEmbedding",
    "Llama4VisionRotaryEmbedding",
    "MusicFlamingoRotaryEmbedding",
    "Sapiens2RopePositionEmbedding",
    "SeamlessM4TConformerRotaryPositionalEmbedding",
    "Wav2Vec2BertRotaryPositionalEmbedding",
    "Wav2Vec2ConformerRotaryPositionalEmbedding",
)

# Those that need keys which the defaults of their configs do not have.
GIVEN = (
    "HunYuanVLRotaryEmbedding",
    "SeamlessM4TConformerRotaryPositionalEmbedding",
    "Wav2Vec2BertRotaryPositionalEmbedding",
    "Wav2Vec2ConformerRotaryPositionalEmbedding",
)

Query = Callable[[int], torch.Tensor]


class Measured(types.SimpleNamespace):
    """One row: config, module and apply by name, position ids by axis, frequencies, the result."""

    family: str
    config: Any
    module: str
    apply: str
    positions: str
    ids: list[list[float]]
    inv_freq: torch.Tensor
    out: torch.Tensor  # [8, 2, head_dim]


def heads_first(x: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, width] as [1, heads, tokens, width], and back."""
    return x.transpose(0, 1)[None]


def rows_back(x: torch.Tensor) -> torch.Tensor:
    return x[0].transpose(0, 1)


def clvp(query: Query) -> Measured:
    config = modeling_clvp.ClvpEncoderConfig()
    rotary = modeling_clvp.ClvpRotaryPositionalEmbedding(config)
    angles = rotary(torch.zeros(1, 8, config.hidden_size))
    cos, sin = angles.cos().squeeze(0), angles.sin().squeeze(0)
    q = heads_first(query(angles.shape[-1]))
    out = modeling_clvp.apply_rotary_pos_emb(q, q, q, cos, sin, torch.tensor([FIRST]))[0]
    return Measured(
        family="clvp",
        config=config,
        module="ClvpRotaryPositionalEmbedding",
        apply="apply_rotary_pos_emb",
        positions="t",
        ids=[FIRST],
        inv_freq=rotary.inv_freq,
        out=rows_back(out),
    )


def conformer(family: str, space: Any, prefix: str, keys: dict[str, Any]) -> Any:
    """A Conformer rotates the hidden states, split into heads, before it projects them."""

    def run(query: Query) -> Measured:
        config = getattr(space, f"{prefix.removesuffix('Conformer')}Config", None)
        config = (config or getattr(space, f"{prefix}Config"))(**keys)
        name = f"{prefix}RotaryPositionalEmbedding"
        rotary = getattr(space, name)(config)
        width = 2 * rotary.inv_freq.shape[0]
        heads = types.SimpleNamespace(num_heads=2, head_size=width)
        tables = rotary(torch.zeros(1, 8, 2 * width))
        attention = getattr(space, f"{prefix}SelfAttention")
        out = attention._apply_rotary_embedding(heads, query(width).view(1, 8, 2 * width), tables)
        return Measured(
            family=family,
            config=config,
            module=name,
            apply="_apply_rotary_embedding",
            positions="t",
            ids=[FIRST],
            inv_freq=rotary.inv_freq,
            out=out.view(8, 2, width),
        )

    return run


def patches(family: str, space: Any, name: str) -> Any:
    """DINOv3: angles of the centres of patches, in [-1, 1]; 2 x 4 patches."""

    def run(query: Query) -> Measured:
        cls = getattr(space, name)
        config = cls.__init__.__annotations__["config"]()
        rotary = cls(config).eval()
        size = config.patch_size
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        cos, sin = rotary(torch.zeros(1, 3, 2 * height, 4 * width))
        q = heads_first(query(cos.shape[-1]))
        out = space.apply_rotary_pos_emb(q, q, cos, sin)[0]
        return Measured(
            family=family,
            config=config,
            module=name,
            apply="apply_rotary_pos_emb",
            positions="hw",
            ids=[[-0.5] * 4 + [0.5] * 4, [-0.75, -0.25, 0.25, 0.75] * 2],
            inv_freq=rotary.inv_freq * 2 * torch.pi,
            out=rows_back(out),
        )

    return run


def llama4_vision(query: Query) -> Measured:
    config = modeling_llama4.Llama4VisionConfig()
    rotary = modeling_llama4.Llama4VisionRotaryEmbedding(config)
    table = rotary(torch.zeros(1))
    tokens, side = table.shape[0], config.image_size // config.patch_size
    width = 2 * table.shape[-1]
    q = torch.zeros(1, tokens, 2, width)
    q[0, :8] = query(width)
    out = modeling_llama4.vision_apply_rotary_emb(q, q, table)[0]
    return Measured(
        family="llama4",
        config=config,
        module="Llama4VisionRotaryEmbedding",
        apply="vision_apply_rotary_emb",
        positions="wh",
        ids=[[t % side + 1 for t in FIRST], [t // side + 1 for t in FIRST]],
        inv_freq=table[0, 0, : width // 4].angle(),
        out=out[0, :8],
    )


def efficientloftr(query: Query) -> Measured:
    config = modeling_efficientloftr.EfficientLoFTRConfig()
    rotary = modeling_efficientloftr.EfficientLoFTRRotaryEmbedding(config)
    kernel, stride = config.q_aggregation_kernel_size, config.q_aggregation_stride
    sizes = [(count - 1) * stride + kernel for count in (2, 4)]
    cos, sin = rotary(torch.zeros(1, config.hidden_size, *sizes))
    cos, sin = cos.flatten(1, 2), sin.flatten(1, 2)
    q = query(config.hidden_size)[None]
    apply = modeling_efficientloftr.apply_rotary_pos_emb
    return Measured(
        family="efficientloftr",
        config=config,
        module="EfficientLoFTRRotaryEmbedding",
        apply="apply_rotary_pos_emb",
        positions="hw",
        ids=[[1] * 4 + [2] * 4, [1, 2, 3, 4] * 2],
        inv_freq=rotary.inv_freq,
        out=apply(q, q, cos, sin, unsqueeze_dim=2)[0][0],
    )


HUNYUAN = {"rope_type": "dynamic", "alpha": 1000.0, "mrope_section": [16, 16, 16, 16]}


def hunyuan(query: Query, ids: list[list[int]]) -> tuple[Any, Any, torch.Tensor]:
    rope = HUNYUAN | {"rope_theta": 10000.0, "factor": 1.0}
    config = modeling_hunyuan_vl.HunYuanVLTextConfig(head_dim=128, rope_parameters=rope)
    rotary = modeling_hunyuan_vl.HunYuanVLRotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1, 8, 8), torch.tensor(ids)[:, None, :])
    q = heads_first(query(cos.shape[-1]))
    return config, rotary, rows_back(modeling_hunyuan_vl.apply_rotary_pos_emb(q, q, cos, sin)[0])


def hunyuan_text(query: Query) -> Measured:
    """Text tokens, whose four positions are equal."""
    config, rotary, out = hunyuan(query, [FIRST] * 4)
    return Measured(
        family="hunyuan_vl",
        config=config,
        module="HunYuanVLRotaryEmbedding",
        apply="apply_rotary_pos_emb",
        positions="t",
        ids=[FIRST],
        inv_freq=rotary.inv_freq,
        out=out,
    )


def sinusoidal(family: str, space: Any, config: Any) -> Any:
    """GPT-J and CodeGen: a table of sin and cos."""

    def run(query: Query) -> Measured:
        width = config.rotary_dim
        sin, cos = space.create_sinusoidal_positions(8, width).chunk(2, dim=-1)
        out = space.apply_rotary_pos_emb(query(width)[None], sin[None], cos[None])
        return Measured(
            family=family,
            config=config,
            module="create_sinusoidal_positions",
            apply="apply_rotary_pos_emb",
            positions="t",
            ids=[FIRST],
            inv_freq=torch.atan2(sin[1], cos[1]),
            out=out[0],
        )

    return run


def roformer(query: Query) -> Measured:
    config = modeling_roformer.RoFormerConfig()
    width = config.hidden_size // config.num_attention_heads
    table = modeling_roformer.RoFormerSinusoidalPositionalEmbedding(8, width)
    table.weight.data.copy_(table.create_weight())
    attention = modeling_roformer.RoFormerSelfAttention
    q = heads_first(query(width))
    out = attention.apply_rotary_position_embeddings(table(torch.Size([1, 8]))[None, None], q, q)[0]
    sin, cos = table.weight[1].chunk(2)
    return Measured(
        family="roformer",
        config=config,
        module="RoFormerSinusoidalPositionalEmbedding",
        apply="apply_rotary_position_embeddings",
        positions="t",
        ids=[FIRST],
        inv_freq=torch.atan2(sin, cos),
        out=rows_back(out),
    )


def largest_change(before: torch.Tensor, after: torch.Tensor) -> float:
    """How much the norms of vectors change, relative: 0 for a rotation."""
    ratio = after.double().norm(dim=-1) / before.double().norm(dim=-1)
    return float(f"{(ratio - 1).abs().max():.6g}")


def vjepa2_norms(query: Query) -> float:
    x = heads_first(query(64))
    turned = modeling_vjepa2.rotate_queries_or_keys(x, torch.tensor(FIRST).float()[None, None])
    return largest_change(x, turned)


def hunyuan_image_norms(query: Query) -> float:
    out = hunyuan(query, [FIRST, FIRST[::-1], [3] * 8, [0] * 8])[2]
    return largest_change(query(out.shape[-1]), out)


def musicflamingo_angles(_: Query) -> float:
    """Angles of two tokens with one time stamp, as a ratio: 1 for a rotation by time."""
    config = modeling_musicflamingo.MusicFlamingoConfig()
    rotary = modeling_musicflamingo.MusicFlamingoRotaryEmbedding(config)
    times = torch.arange(8).float()[None] * 1e-3
    angles = [torch.atan2(sin, cos) for cos, sin in (rotary(times, 8), rotary(2 * times[:, :4], 4))]
    return float(f"{(angles[0][0, 2, -1] / angles[1][0, 1, -1]):.6g}")


def lightglue_spread(_: Query) -> float:
    """Largest relative difference of the frequencies of two models with one config."""
    config = modeling_lightglue.LightGlueConfig()
    made = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        made.append(modeling_lightglue.LightGluePositionalEncoder(config).projector.weight.detach())
    return float(f"{((made[0] - made[1]) / made[0]).abs().max():.6g}")


def esmfold2_bases(_: Query) -> float:
    """Second over first base of the two ladders in one head."""
    config = modeling_esmfold2.EsmFold2Config()
    rotary = modeling_esmfold2.EsmFold2RotaryEmbedding(atom_config_of(config))
    return float(rotary.uid_rope_base_frequency / rotary.spatial_rope_base_frequency)


def atom_config_of(config: Any) -> Any:
    """The first sub-config with the two bases."""
    for value in vars(config).values():
        if hasattr(value, "spatial_rope_base_frequency"):
            return value
        if hasattr(value, "to_dict"):
            found = atom_config_of(value)
            if found is not None:
                return found
    return None


ROTATIONS: list[Callable[[Query], Measured]] = [
    clvp,
    conformer(
        "wav2vec2_conformer",
        modeling_wav2vec2_conformer,
        "Wav2Vec2Conformer",
        {"position_embeddings_type": "rotary"},
    ),
    conformer(
        "wav2vec2_bert",
        modeling_wav2vec2_bert,
        "Wav2Vec2Bert",
        {"position_embeddings_type": "rotary"},
    ),
    conformer(
        "seamless_m4t",
        modeling_seamless_m4t,
        "SeamlessM4TConformer",
        {"position_embeddings_type": "rotary"},
    ),
    patches("dinov3_vit", modeling_dinov3_vit, "DINOv3ViTRopePositionEmbedding"),
    patches("eomt_dinov3", modeling_eomt_dinov3, "EomtDinov3RotaryEmbedding"),
    patches("sapiens2", modeling_sapiens2, "Sapiens2RopePositionEmbedding"),
    llama4_vision,
    efficientloftr,
    hunyuan_text,
    sinusoidal("gptj", modeling_gptj, modeling_gptj.GPTJConfig()),
    sinusoidal("codegen", modeling_codegen, modeling_codegen.CodeGenConfig()),
    roformer,
]

# What is measured, and by what; docs/families.md says what it means.
NOT_ROTATIONS = {
    "vjepa2": ("largest relative change of a norm", vjepa2_norms),
    "hunyuan_vl image tokens": ("largest relative change of a norm", hunyuan_image_norms),
    "musicflamingo": (
        "ratio of the angles of two tokens with one time stamp",
        musicflamingo_angles,
    ),
    "lightglue": (
        "largest relative difference of frequencies of two models of one config",
        lightglue_spread,
    ),
    "esmfold2 atoms": ("ratio of the two bases in one head", esmfold2_bases),
}


def run(
    query: Query, plain: Callable[[Any], Any], digits: Callable[[Any], Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    rows = []
    for measure in ROTATIONS:
        found = measure(query)
        rows.append(
            {
                "family": found.family,
                "module": found.module,
                "config_class": type(found.config).__name__,
                "given": found.module in GIVEN,
                "layer_type": None,
                "config": plain(found.config.to_dict()),
                "inv_freq": digits(found.inv_freq.double().tolist()),
                "attention_scaling": 1.0,
                "positions": found.positions,
                "position_ids": found.ids,
                "apply": found.apply,
                "head_dim": found.out.shape[-1],
                "q_out": digits(found.out[:, 0].double().tolist()),
            }
        )
    refused = {
        name: {"measured": what, "value": measure(query)}
        for name, (what, measure) in NOT_ROTATIONS.items()
    }
    return rows, refused
