# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""vLLM's rotary classes, with exact angles.

Each class is replaced by a subclass. Its table holds exact values, for the code of vLLM that reads
it, and its forward does not read it: angles are computed in the kernel, in place, at any position.
FoPE, dual chunk attention and Llama 4's vision tower keep their forward, and read exact tables.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from rotary.torch import adjoint, rotate, rotate_
from rotary.torch.serving import ExactAngles, ExactTables, layout_text

_PACKAGE = "vllm.model_executor.layers.rotary_embedding"
#: module: classes
REPLACED = {
    "base": ["RotaryEmbedding"],
    "linear_scaling_rope": ["LinearScalingRotaryEmbedding"],
    "ntk_scaling_rope": ["NTKScalingRotaryEmbedding"],
    "dynamic_ntk_scaling_rope": ["DynamicNTKScalingRotaryEmbedding"],
    "dynamic_ntk_alpha_rope": ["DynamicNTKAlphaRotaryEmbedding"],
    "llama3_rope": ["Llama3RotaryEmbedding"],
    "yarn_scaling_rope": ["YaRNScalingRotaryEmbedding"],
    "deepseek_scaling_rope": ["DeepseekScalingRotaryEmbedding", "DeepseekV4ScalingRotaryEmbedding"],
    "gemma4_rope": ["Gemma4RotaryEmbedding"],
    "mrope": ["MRotaryEmbedding"],
    "mrope_interleaved": ["MRotaryEmbeddingInterleaved"],
    "bailing_mrope": ["BailingMRotaryEmbedding"],
    "ernie45_vl_rope": ["Ernie4_5_VLRotaryEmbedding"],
    "phi3_long_rope_scaled_rope": ["Phi3LongRoPEScaledRotaryEmbedding"],
    "fope": ["FourierRotaryEmbedding"],
    "dual_chunk_rope": ["DualChunkRotaryEmbedding"],
    "llama4_vision_rope": ["Llama4VisionRotaryEmbedding"],
}


class ExactRotary(ExactAngles):
    """Mixin in front of a class of vLLM."""

    head_size: int
    rotary_dim: int
    is_neox_style: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        axis_of_pair = self.axis_of_pair()
        self.has_axes = axis_of_pair is not None
        self.rope = layout_text(
            self.rotated_head(),
            self.exact_frequencies,
            pairing="half" if self.is_neox_style else "interleaved",
            scale=self.exact_scale,
            axis_of_pair=axis_of_pair,
        )

    def rotated_head(self) -> int:
        """How many elements of a head are handed to the kernel; it rotates the first of them."""
        return self.head_size

    def axis_of_pair(self) -> list[int] | None:
        return None

    def forward(
        self,
        positions: Tensor,
        query: Tensor,
        key: Tensor | None = None,
        offsets: Tensor | None = None,
        inverse: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """In place, as vLLM's kernels; new tensors in a compiled graph, whose compiler decides."""
        if offsets is not None:
            positions = positions + offsets
        if positions.dim() == 2:  # [axes, tokens] of M-RoPE, with a batch of one; or tokens in rows
            positions = positions.unsqueeze(1) if self.has_axes else positions.flatten()
        tensors = [self.heads(x, positions.shape[-1]) for x in (query, key) if x is not None]
        if inverse or torch.compiler.is_compiling():
            function = adjoint if inverse else rotate
            results = function(*tensors, rope=self.rope, positions=positions)
            rotated = results if len(tensors) == 2 else (results, None)
            return self.joined(query, rotated[0]), self.joined(key, rotated[1])
        rotate_(*tensors, rope=self.rope, positions=positions)
        return query, key

    # vLLM calls one of these for a platform, or forward_native under Inductor.
    forward_native = forward_cpu = forward_cuda = forward_hip = forward_xpu = forward_tpu = forward

    def heads(self, x: Tensor, tokens: int) -> Tensor:
        """[tokens, heads, head_size] of [tokens, heads * head_size] or of itself."""
        return x.view(tokens, -1, self.head_size)

    def joined(self, x: Any, rotated: Any) -> Any:
        return None if x is None else rotated.view(x.shape)


class ExactDeepseekV4(ExactRotary):
    """Rotates the end of heads, whose sizes differ from call to call."""

    def rotated_head(self) -> int:
        return self.rotary_dim

    def heads(self, x: Tensor, tokens: int) -> Tensor:
        ends = x[..., -self.rotary_dim :]
        return ends if ends.dim() == 3 else ends.unsqueeze(1)

    def joined(self, x: Any, rotated: Any) -> Any:
        if x is None:
            return None
        rotated = rotated.view(*x.shape[:-1], self.rotary_dim)
        return torch.cat((x[..., : -self.rotary_dim], rotated), -1)


class ExactMrope(ExactRotary):
    """Sections of pairs for time, height and width, in a row or interleaved."""

    mrope_section: list[int] | None
    mrope_interleaved: bool

    def axis_of_pair(self) -> list[int] | None:
        section = self.mrope_section
        if not section:
            return None
        if not self.mrope_interleaved:
            return [axis for axis, size in enumerate(section) for _ in range(size)]
        axes = [p % 3 for p in range(self.rotary_dim // 2)]
        return [axis if p < 3 * section[axis] else 0 for p, axis in enumerate(axes)]


class ExactSpatialFirst(ExactMrope):
    """Height and width alternate, then time (ERNIE 4.5, Bailing)."""

    def axis_of_pair(self) -> list[int] | None:
        section = self.mrope_section
        if not section:
            return None
        pairs = self.rotary_dim // 2
        spatial = sum(section[:2]) if self.counts_spatial_first() else sum(section[1:])
        return [1 + p % 2 if p < spatial else 0 for p in range(pairs)]

    def counts_spatial_first(self) -> bool:
        return False


class ExactErnie(ExactSpatialFirst):
    """Its sections are [height, width, time]; its positions are [time, height, width]."""

    def counts_spatial_first(self) -> bool:
        return True


class ExactPangu(ExactMrope):
    """Axes in the order that the class has computed."""

    mrope_dim: list[int]

    def axis_of_pair(self) -> list[int] | None:
        return self.mrope_dim[: self.rotary_dim // 2]


class ExactLongRope(ExactRotary):
    """Two recipes, of which the length of the model chooses one for good. Not a CustomOp."""

    use_long_rope: bool
    is_neox_style = True

    def _compute_cos_sin_cache(self, *args: Any, **kwargs: Any) -> Tensor:
        table = super()._compute_cos_sin_cache(*args, **kwargs)
        computed = [*getattr(self, "_computed", ()), (self.exact_frequencies, self.exact_scale)]
        self._computed = computed  # short, then long
        used = computed[-1] if self.use_long_rope else computed[0]
        self.exact_frequencies, self.exact_scale = used
        return table

    def scale_of_table(self, *args: Any, **kwargs: Any) -> float:
        return float(args[2])


class ExactFourier(ExactTables):
    """Sums of cos and sin with coefficients of the checkpoint. The table is computed when both are
    loaded; vLLM does so in the first forward, which may be in a compiled graph."""

    update_cache: bool
    cos_sin_cache: Tensor
    cos_coef: Tensor
    sin_coef: Tensor
    dtype: torch.dtype

    def weight_loader(self, param: Any, loaded_weight: Tensor) -> None:
        super().weight_loader(param, loaded_weight)  # type: ignore[misc]
        self._loaded = {*getattr(self, "_loaded", ()), id(param)}
        if self._loaded >= {id(self.cos_coef), id(self.sin_coef)}:
            self.cos_sin_cache.copy_(self._compute_cos_sin_cache().to(self.dtype))
            self.update_cache = False

    def is_comparable(self, index: int) -> bool:
        return hasattr(self, "update_cache")  # before that coefficients are not set


class ExactDualChunk(ExactTables):
    """Five tables: queries in their chunk, in the next, keys, and two of queries further away."""

    def is_comparable(self, index: int) -> bool:
        return index in (0, 2)  # the others begin a chunk further


_MIXINS = {
    "FourierRotaryEmbedding": ExactFourier,
    "DualChunkRotaryEmbedding": ExactDualChunk,
    "Llama4VisionRotaryEmbedding": ExactTables,
    "DeepseekV4ScalingRotaryEmbedding": ExactDeepseekV4,
    "MRotaryEmbedding": ExactMrope,
    "MRotaryEmbeddingInterleaved": ExactPangu,
    "BailingMRotaryEmbedding": ExactSpatialFirst,
    "Ernie4_5_VLRotaryEmbedding": ExactErnie,
    "Phi3LongRoPEScaledRotaryEmbedding": ExactLongRope,
}


def _replace(module: Any, name: str) -> None:
    from vllm.model_executor.custom_op import CustomOp, op_registry_oot

    original = getattr(module, name)
    if name in op_registry_oot or issubclass(original, ExactAngles):
        return
    mixin = _MIXINS.get(name, ExactRotary)
    made: Any = type(f"Exact{name}", (mixin, original), {"__module__": __name__})
    if issubclass(original, CustomOp):
        CustomOp.register_oot(made, name=name)
        made.name = original.name  # so that custom_ops=["+rotary_embedding"] still means it
    else:
        for holder in (module, importlib.import_module(_PACKAGE)):
            setattr(holder, name, made)


def replace_classes() -> tuple[list[str], dict[str, str]]:
    """Returns the names of the classes that models now get an exact one of, and why others stay."""
    from vllm.model_executor.custom_op import op_registry_oot

    replaced, kept = [], {}
    for module_name, names in REPLACED.items():
        module = importlib.import_module(f"{_PACKAGE}.{module_name}")
        for name in names:
            _replace(module, name)
            if issubclass(op_registry_oot.get(name, getattr(module, name)), ExactAngles):
                replaced.append(name)
            else:
                kept[name] = "another plugin has replaced it"
    return replaced, kept
