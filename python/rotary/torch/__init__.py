# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary for PyTorch: operators (torch.ops.rotary.*), functions over them and a module.

    embedding = rotary.torch.RotaryEmbedding.from_pretrained("Qwen2.5-7B/", token_dim=-2)
    q, k = embedding(q, k, positions=position_ids)

Differentiable (also twice, and in positions and frequencies), one graph under torch.compile, works
in torch.export, CUDA graphs, torch.func and autocast. docs/pytorch.md says more.
"""

from __future__ import annotations

from . import _library as _library
from . import _vmap as _vmap
from .attention import (
    Attention,
    KeyValueCache,
    attend,
    attention_backend,
    last_attention_backend,
)
from .cache import (
    mla_rope_append,
    rerotate_cached_,
    rope_append_kv,
    rotate_quantized,
    shift_cached_,
)
from .context_parallel import ContextParallel
from .encodings import (
    Alibi,
    DistanceBias,
    Encoding,
    Hybrid,
    Kerple,
    LearnedPositions,
    Rotation,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    make_encoding,
)
from .functional import (
    adjoint,
    rotate,
    rotate_,
    rotate_by_table,
    rotate_by_table_,
    shift,
    shift_,
    unrotate,
    unrotate_,
)
from .linear_attention import (
    LinearAttention,
    LinearState,
    linear_attend,
    orthogonal_features,
)
from .module import RotaryEmbedding
from .norm import qk_norm_rope, qk_norm_rope_
from .patching import check, patch
from .position_steps import PositionSteps
from .text import rope_text

__all__ = [
    "Alibi", "Attention", "ContextParallel", "DistanceBias", "Encoding", "Hybrid", "Kerple",
    "KeyValueCache", "LearnedPositions", "LinearAttention", "LinearState", "PositionSteps",
    "RotaryEmbedding", "Rotation", "Shaw", "Sinusoidal", "T5Bias", "TransformerXL", "adjoint",
    "attend", "attention_backend", "check", "last_attention_backend", "linear_attend",
    "make_encoding", "mla_rope_append", "orthogonal_features", "patch", "qk_norm_rope",
    "qk_norm_rope_", "rerotate_cached_", "rope_append_kv", "rope_text", "rotate", "rotate_",
    "rotate_by_table", "rotate_by_table_", "rotate_quantized", "shift", "shift_", "shift_cached_",
    "unrotate", "unrotate_",
]  # fmt: skip
