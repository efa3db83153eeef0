# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings for every model: exact, fast, on the arrays you have.

rope = rotary.Rope.from_pretrained("Qwen2.5-7B/")     # or config.json, a .gguf, a dict
q, k = rope.rotate(q, k, positions=4096)              # NumPy, PyTorch, CuPy, JAX
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import Positions, cpu_target, cpu_targets, cuda_device_count, has_cuda
from ._core import version as __version__
from .analysis import (
    BaseBound,
    angle_errors,
    critical_dim,
    decay,
    negative_distance,
    position_plane,
    relative_scores,
    smallest_base,
    turns,
    wavelengths,
)
from .dialects import Dialect, DialectDiff, Plan, diff, known_dialects, plan
from .errors import CudaError, IoError
from .exploration import Exploration, explore
from .inspection import Inspection, inspect
from .kv_cache import append_kv, rerotate_cached_, shift_cached_
from .layout import Cache, HeadLayout, Pairing, Precision
from .model import ContextLength, Model, ModelRope, known_model_types
from .norm import Norm
from .positions import at, packed, packed_at, positions, ranges
from .recipe import (
    Axial,
    AxisMap,
    Divisors,
    DynamicNtk,
    Learnable,
    Linear,
    Llama3,
    LongRope,
    Mixed,
    Mrope,
    Ntk,
    NtkAlpha,
    OneAxis,
    Plain,
    Proportional,
    ReceptiveField,
    Recipe,
    Scaling,
    Xpos,
    Yarn,
    YarnPaper,
    YarnWalkthrough,
)
from .rope import Frequencies, Rope, depends_on_context, make_frequencies

if TYPE_CHECKING:
    from . import plot

__all__ = [
    "Axial", "AxisMap", "BaseBound", "Cache", "ContextLength", "CudaError", "Dialect",
    "DialectDiff", "Divisors", "DynamicNtk", "Exploration", "Frequencies", "HeadLayout",
    "Inspection", "IoError", "Learnable", "Linear", "Llama3", "LongRope", "Mixed", "Model",
    "ModelRope", "Mrope", "Norm", "Ntk", "NtkAlpha", "OneAxis", "Pairing", "Plain", "Plan",
    "Positions", "Precision", "Proportional", "ReceptiveField", "Recipe", "Rope", "Scaling", "Xpos",
    "Yarn", "YarnPaper", "YarnWalkthrough", "__version__", "angle_errors", "append_kv", "at",
    "cpu_target", "cpu_targets", "critical_dim", "cuda_device_count", "decay", "depends_on_context",
    "diff", "explore", "has_cuda", "inspect", "known_dialects", "known_model_types",
    "make_frequencies", "negative_distance", "packed", "packed_at", "plan", "plot",
    "position_plane", "positions", "ranges", "relative_scores", "rerotate_cached_", "shift_cached_",
    "smallest_base", "turns", "wavelengths",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Only when asked for: they need other packages.
    if name in ("jax", "kernels", "onnx", "plot", "torch"):
        import importlib

        return importlib.import_module(f"rotary.{name}")
    raise AttributeError(f"module 'rotary' has no attribute {name!r}")
