# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding by cos and sin, with gradients: a kernel of Hugging Face `kernels`.

kernel = get_local_kernel(Path("rotary-kernel"))
q, k = kernel.apply_rotary(q, k, cos, sin)
"""

from . import layers
from .tables import apply_rotary

__all__ = ["apply_rotary", "layers"]
