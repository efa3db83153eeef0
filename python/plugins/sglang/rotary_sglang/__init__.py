# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary as a plugin of SGLang, which loads it by itself in every process.

SGLang's rotary classes get tables of exact cos and sin. All its kernels read those tables, also the
ones that write the KV cache, so that none is replaced. ROTARY_SGLANG=off turns this off.
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any

import torch

from rotary.torch.serving import ExactAngles, ExactTables, exact_rows

_PACKAGE = "sglang.srt.layers.rotary_embedding"
MODES = ("exact", "off")
#: module: classes
REPLACED = {
    "base": ["RotaryEmbedding", "LinearScalingRotaryEmbedding"],
    "yarn": ["YaRNScalingRotaryEmbedding"],
    "mrope": ["MRotaryEmbedding", "YaRNScalingMRotaryEmbedding", "Ernie4_5_VLRotaryEmbedding"],
    "bailing_mrope": ["BailingMRotaryEmbedding"],
    "rope_variant": [
        "DeepseekScalingRotaryEmbedding",
        "Llama3RotaryEmbedding",
        "DynamicNTKAlphaRotaryEmbedding",
        "DynamicNTKScalingRotaryEmbedding",
        "Gemma4RotaryEmbedding",
        "Phi3LongRoPEScaledRotaryEmbedding",
        "FourierRotaryEmbedding",
        "DualChunkRotaryEmbedding",
        "Llama4VisionRotaryEmbedding",
    ],
}


class ExactTable(ExactAngles):
    """Mixin in front of a class of SGLang, whose table may grow."""

    cos_sin_cache: torch.Tensor

    def _ensure_cos_sin_cache_length(self, needed_max_pos: int) -> None:
        before, used = self.cos_sin_cache.shape[0], (self.exact_frequencies, self.exact_scale)
        super()._ensure_cos_sin_cache_length(needed_max_pos)  # type: ignore[misc]
        self.exact_frequencies, self.exact_scale = used
        table = self.cos_sin_cache
        added = table.shape[0] - before
        if added > 0:
            first = getattr(self, "position_start", 0) + before
            rows = exact_rows(*used, first, added).to(device=table.device, dtype=table.dtype)
            self.cos_sin_cache = torch.cat((table[:before], rows))


class ExactLongRope(ExactTable):
    """Two tables, whose scale is an argument."""

    def scale_of_table(self, *args: Any, **kwargs: Any) -> float:
        return float(args[2])


class ExactFourier(ExactTables):
    """Its coefficients are those of the checkpoint from the first forward on."""

    def is_comparable(self, index: int) -> bool:
        return hasattr(self, "update_buffer")


class ExactDualChunk(ExactTables):
    """Five tables, of which the first and the third begin at position 0."""

    def is_comparable(self, index: int) -> bool:
        return index in (0, 2)


_MIXINS: dict[str, type] = {
    "Phi3LongRoPEScaledRotaryEmbedding": ExactLongRope,
    "FourierRotaryEmbedding": ExactFourier,
    "DualChunkRotaryEmbedding": ExactDualChunk,
    "Llama4VisionRotaryEmbedding": ExactTables,
}


def mode() -> str:
    """What ROTARY_SGLANG asks for. ValueError for something else."""
    found = os.environ.get("ROTARY_SGLANG", "exact")
    if found not in MODES:
        raise ValueError(f"[rotary_sglang] ROTARY_SGLANG must be one of {MODES}, got {found!r}")
    return found


def register() -> None:
    """Registers the replacements, which SGLang then applies everywhere, and logs them."""
    log = logging.getLogger("sglang.plugins.rotary")
    if mode() == "off":
        log.info("rotary: nothing replaced (ROTARY_SGLANG=off).")
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    replaced = []
    for module_name, names in REPLACED.items():
        module = importlib.import_module(f"{_PACKAGE}.{module_name}")
        for name in names:
            original = getattr(module, name)
            if issubclass(original, ExactAngles):
                continue
            mixin = _MIXINS.get(name, ExactTable)
            made = type(f"Exact{name}", (mixin, original), {"__module__": __name__})
            HookRegistry.register(f"{_PACKAGE}.{module_name}.{name}", made, HookType.REPLACE)
            replaced.append(name)
    log.info(
        "rotary: tables of exact cos and sin in %s. ROTARY_SGLANG=off turns this off.",
        ", ".join(replaced),
    )
