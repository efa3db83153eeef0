# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotation in JAX, as a custom call of XLA:

    q = rotary.jax.rotate(q, rope, positions=ids)      # q is [..., tokens, heads, head_dim]

Inside jit, grad, vmap and shard_map, on a CPU (XLA's threads) or a GPU (its stream). Angles are
exact, as everywhere in rotary; float16 and bfloat16 are rotated in float32 and rounded once.
"""

from __future__ import annotations

from .calls import rotate

__all__ = ["rotate"]
