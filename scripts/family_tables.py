#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What every rotary module of the installed transformers computes, for tests/golden.

    pip install torch transformers==5.23.0
    scripts/family_tables.py > tests/golden/families_5.23.json

Every class of transformers.models.*.modeling_* that makes cos and sin is built from the defaults of
its config class and run, and a fixed query goes through the family's own apply function; nothing is
computed here. What cannot be run by the rules below is listed under `not_run` with its error, so
that a new release shows what is missing. Families whose rotation is not made by a module of that
kind, or is not a rotation, are in family_probes.py.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any

import family_probes
import torch
import transformers

T = [0, 1, 2, 17, 1000, 4095, 32767, 131071]
H = [0, 3, 1, 5, 40, 63, 2, 31]
W = [0, 1, 7, 2, 11, 62, 63, 5]
TOKENS_KEPT = 3

# Names of apply functions, in the order in which attention prefers them.
VISION_APPLY = (
    "apply_rotary_pos_emb_vision",
    "apply_rotary_pos_emb_2d",
    "apply_rotary_pos_emb_2d_self_attn",
    "apply_multidimensional_rope",
    "apply_rotary_pos_emb",
)
TEXT_APPLY = (
    "apply_rotary_pos_emb_interleave",
    "apply_rotary_pos_emb",
    "apply_rotary_emb",
)
# Where a file has functions for several of its modules.
APPLY = {
    "Dots3NoteAudioRotaryEmbedding": "apply_rotary_pos_emb",
    "MiniMaxM3VLVisionRotaryEmbedding": "apply_rotary_pos_emb_vision",
}
# Config classes of modules whose annotation names a composite.
CONFIGS = {
    "BltRotaryEmbedding": "BltGlobalTransformerConfig",
    "DeepseekOcr2VisionRotaryEmbedding": "DeepseekOcr2VisionEncoderConfig",
    "DiaRotaryEmbedding": "DiaDecoderConfig",
    "Emu3RotaryEmbedding": "Emu3TextConfig",
    "GlmAsrRotaryEmbedding": "GlmAsrEncoderConfig",
    "MiniMaxM3VLRotaryEmbedding": "MiniMaxM3VLTextConfig",
    "MuseGlimmerTextRotaryEmbedding": "MuseGlimmerTextConfig",
    "MuseSparkTextRotaryEmbedding": "MuseSparkTextConfig",
    "Nemotron3DiarizationRotaryEmbedding": "Nemotron3DiarizationAudioConfig",
    "PaddleOCRRotaryEmbedding": "PaddleOCRTextConfig",
    "Qwen2VLRotaryEmbedding": "Qwen2VLTextConfig",
    "Qwen2_5OmniRotaryEmbedding": "Qwen2_5OmniTextConfig",
    "Qwen2_5_VLRotaryEmbedding": "Qwen2_5_VLTextConfig",
    "Qwen3OmniMoeRotaryEmbedding": "Qwen3OmniMoeCode2WavConfig",
    "Step3p7RotaryEmbedding": "Step3p7TextConfig",
    "T5GemmaRotaryEmbedding": "T5GemmaModuleConfig",
    "VoxtralRealtimeRotaryEmbedding": "VoxtralRealtimeEncoderConfig",
}
# What the published checkpoints add where the defaults of the class cannot be run.
COMPASS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [22, 22, 20]}
GIVEN: dict[str, dict[str, Any]] = {
    "CohereCompassRotaryEmbedding": {
        "head_dim": 128,
        "rope_parameters": {"full_attention": COMPASS},
    },
    "Glm4vMoeTextRotaryEmbedding": {"head_dim": 128, "partial_rotary_factor": 0.5},
    "Glm4vTextRotaryEmbedding": {"partial_rotary_factor": 0.5},
    "GlmImageTextRotaryEmbedding": {"partial_rotary_factor": 0.5},
    "Molmo2RotaryEmbedding": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
        },
        "rope_scaling_layers": [3, 7, 11],
    },
}
# The sparse attention of these has an indexer, which pairs halves.
INDEXERS = ("deepseek_v32", "axk2")
# Keys that no rotation depends on.
NOISE = re.compile(
    r"(_token_id|_token|_token_index|id2label|label2id|chunk_size_feed_forward|return_dict|output_"
    r"|architectures|problem_type|_name_or_path|dtype|initializer|dropout|vocab|activation|_act$"
    r"|_eps$|use_cache|tie_word|is_encoder_decoder|_loss|expert|_stride|_bias$|_plan$|num_labels)"
)


def query(width: int) -> torch.Tensor:
    """q[i] = ((i*7919+13) % 2003)/1001.5 - 1 as float32, [8 positions, 2 heads, width]."""
    i = torch.arange(8 * 2 * width, dtype=torch.int64)
    return (((i * 7919 + 13) % 2003).double() / 1001.5 - 1.0).float().view(8, 2, width)


def plain(value: Any) -> Any:
    """A value as JSON has it; nothing for keys that do not matter or are not given."""
    if isinstance(value, dict):
        kept = {str(k): plain(v) for k, v in value.items() if not NOISE.search(str(k))}
        return {k: v for k, v in kept.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value] if len(value) <= 512 else None
    return value if isinstance(value, (str, int, float, bool)) else None


def digits(values: Any) -> Any:
    """Floats with the nine digits that tell float32 apart."""
    if isinstance(values, list):
        return [digits(v) for v in values]
    return float(f"{values:.9g}")


def config_class(cls: type, module: Any) -> type:
    name = CONFIGS.get(cls.__name__)
    if name is None:
        hint = inspect.signature(cls.__init__).parameters["config"].annotation
        name = getattr(hint, "__name__", None) or str(hint).strip("'\"")
    return typing.cast(type, getattr(module, name, None) or getattr(transformers, name))


def layer_types(module: torch.nn.Module, config: Any) -> list[str | None]:
    ropes = getattr(config, "rope_parameters", None) or {}
    nested = [
        k for k, v in ropes.items() if isinstance(v, dict) and hasattr(module, f"{k}_inv_freq")
    ]
    return sorted(nested) or [None]


def positions_of(cls: type, module: Any) -> tuple[str, list[list[int]], torch.Tensor]:
    """Kind of positions, the axes as lists, and the ids in the shape that forward takes."""
    source = inspect.getsource(cls)
    sections = getattr(module, "mrope_section", None)
    if isinstance(sections, dict):
        sections = next(iter(sections.values()))
    if sections is not None:
        axes = [T, H, W, T][: len(sections)]
        return "thw", axes, torch.tensor(axes)[:, None, :]
    if "freq_row" in source:
        return "hw", [H, W], torch.tensor([H, W])[:, None, :]
    if "compute_axial_rope_parameters" in source or "recomposition_frequencies" in source:
        axes = [T, H, W] if "dim // 3" in source else [H, W]
        ids = torch.tensor(axes).T
        return "thw" if len(axes) == 3 else "hw", axes, ids[None] if "[:, :, 0]" in source else ids
    return "t", [T], torch.tensor(T)[None]


def apply_to(function: Any, tables: Any, ids: torch.Tensor, width: int) -> torch.Tensor:
    """The query through a family's own function, back in the shape [8, 2, width]."""
    names = list(inspect.signature(function).parameters)
    rows = query(width)  # [tokens, heads, width]
    heads = rows.transpose(0, 1)[None]  # [batch, heads, tokens, width]
    if "freqs_cis" in names:  # complex: DeepSeek-V2 has heads first, Llama 4 tokens first
        first = heads if "unsqueeze(1)" in inspect.getsource(function) else rows[None]
        out = function(first, first, tables)[0]
        return out[0].transpose(0, 1) if first is heads else out[0]
    cos, sin = tables
    if "position_ids" in names and names[0] == "x":  # Gemma 4's vision tower
        return function(rows[None], cos, sin, ids)[0]
    if cos.dim() == 2:  # a vision tower: no batch
        if names[0] in ("q", "query") and "unsqueeze_dim" not in names:
            return function(rows, rows, cos, sin)[0]
        return function(heads, heads, cos[None], sin[None])[0][0].transpose(0, 1)
    out = function(heads, cos, sin) if names[1] == "cos" else function(heads, heads, cos, sin)[0]
    return out[0].transpose(0, 1)


def head_dim_of(config: Any, layer: str | None) -> int | None:
    """head_dim of the layers of a type, which may differ from that of the config."""
    types = getattr(config, "layer_types", None) or []
    if layer in types and getattr(config, "is_heterogeneous", False):
        return getattr(config.per_layer_config[types.index(layer)], "head_dim", None)
    return getattr(config, "head_dim", None)


def row_of(
    cls: type, config: Any, rotary: Any, space: Any, layer: str | None, applies: tuple[str, ...]
) -> dict[str, Any]:
    kind, axes, ids = positions_of(cls, rotary)
    arguments = {"layer_type": layer} if layer else {}
    x = torch.zeros(1, 8, 8)
    tables = rotary(x, ids, **arguments)
    names = [n for n in applies if hasattr(space, n)]
    name = APPLY.get(cls.__name__, names[0])
    prefix = f"{layer}_" if layer else ""
    head = head_dim_of(config, layer)
    if head is None:
        head = getattr(config, "hidden_size", 0) // max(
            getattr(config, "num_attention_heads", 1), 1
        )
    turned = 2 * tables.shape[-1] if torch.is_tensor(tables) else tables[0].shape[-1]
    error: Exception | None = None
    for width in dict.fromkeys((head, turned, 2 * turned)):
        try:
            out = apply_to(getattr(space, name), tables, ids, width)
            break
        except (RuntimeError, ValueError) as caught:
            error = caught
    else:
        raise error or ValueError("no width fits")
    scale = getattr(rotary, f"{prefix}attention_scaling", 1.0)
    row = {
        "layer_type": layer,
        "config": plain(config.to_dict()),
        "inv_freq": digits(getattr(rotary, f"{prefix}inv_freq").double().tolist()),
        "attention_scaling": float(scale),
        "positions": kind,
        "position_ids": axes,
        "apply": name,
        "head_dim": width,
        "q_out": digits(out[:TOKENS_KEPT, 0].double().tolist()),
    }
    if "mscale" in inspect.getsource(cls.forward):
        row["cos_at_first_position"] = float(tables[0].flatten()[0])
    return row


def modules() -> Iterator[tuple[str, Any, type]]:
    folder = pathlib.Path(transformers.__file__).parent / "models"
    for family in sorted(entry.name for entry in pkgutil.iter_modules([str(folder)])):
        for file in sorted((folder / family).glob("modeling_*.py")):
            if not re.search("rotary|rope", file.read_text(), re.IGNORECASE):
                continue
            space = importlib.import_module(f"transformers.models.{family}.{file.stem}")
            for name, cls in sorted(vars(space).items()):
                if isinstance(cls, type) and issubclass(cls, torch.nn.Module):
                    found = re.search("(Rotary|Rope).*Embedding$", name)
                    if found and cls.__module__ == space.__name__:
                        yield family, space, cls


def rows_of(family: str, space: Any, cls: type) -> Iterator[dict[str, Any]]:
    made = config_class(cls, space)
    config = made(**GIVEN.get(cls.__name__, {}))
    rotary = cls(config)
    about: dict[str, Any] = {
        "family": family,
        "module": cls.__name__,
        "config_class": made.__name__,
    }
    about["given"] = cls.__name__ in GIVEN
    kind = positions_of(cls, rotary)[0]
    vision = kind == "hw" or "Vision" in cls.__name__
    for layer in layer_types(rotary, config):
        yield about | row_of(
            cls, config, rotary, space, layer, VISION_APPLY if vision else TEXT_APPLY
        )
    if "scaled" in inspect.signature(cls.__init__).parameters:
        row = row_of(cls, config, cls(config, scaled=False), space, None, TEXT_APPLY)
        yield about | row | {"layer_type": "unscaled"}
    if family in INDEXERS:
        row = row_of(cls, config, rotary, space, None, ("apply_rotary_pos_emb",))
        yield about | row | {"layer_type": "indexer"}


def rotary_types() -> list[str]:
    """Model types whose config, or that of a part, has keys of a rotation."""
    mapping = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    found = set()
    for name in mapping:
        try:
            config = mapping[name]()
        except Exception:  # composites that cannot be built from defaults
            continue
        parts = [getattr(config, key, None) for key in config.sub_configs or {}]
        described = [part.to_dict() for part in (config, *parts) if hasattr(part, "to_dict")]
        if any(key in keys for keys in described for key in ("rope_parameters", "rope_theta")):
            found.add(name)
    return sorted(found)


def main() -> None:
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    rows, failed = [], {}
    for family, space, cls in modules():
        if cls.__name__ in family_probes.MODULES:
            continue
        try:
            rows.extend(rows_of(family, space, cls))
        except Exception as error:  # the list of what fails is the result
            failed[cls.__name__] = f"{type(error).__name__}: {error}".splitlines()[0]
    probed, refused = family_probes.run(query, plain, digits)
    about = (
        "Every rotary module of Hugging Face transformers with its default config, in the form of "
        "families_more.json; q_out holds the first head of the first positions."
    )
    head = {"transformers": transformers.__version__, "T": T, "H": H, "W": W, "about": about}
    head["model_types"] = rotary_types()
    lines = ",\n".join(json.dumps(row) for row in rows + probed)
    text = json.dumps(head | {"not_run": failed, "not_rotations": refused})[:-1]
    print(f'{text}, "rows": [\n{lines}\n]}}')
    for name, error in failed.items():
        print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
