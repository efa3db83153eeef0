# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The norm of queries and keys, and their rotation, in one pass.

q, k = rotary.torch.qk_norm_rope(q, k, q_norm.weight, k_norm.weight, rope=text)

norm      "rms"           torch.nn.functional.rms_norm of each head, times its weight
          "rms_one_plus"  times 1 + weight, as in Gemma
          "none"          rotation alone
rounding  "tensor"        to the tensors' type after the norm, and after the rotation: the bits
                          of rms_norm, then rotate
          "float32"       after the rotation only
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ._library import ops
from .text import rope_text


def _weights(tensors: list[Tensor], given: list[Tensor | None], norm: str) -> list[Tensor]:
    """None for all tensors, or one for each: what changes nothing where one has none."""
    if norm == "none" or all(w is None for w in given):
        return []
    nothing = 0.0 if norm == "rms_one_plus" else 1.0
    return [x.new_full(x.shape[-1:], nothing) if w is None else w for x, w in zip(tensors, given)]


def _call(
    op: Any,
    q: Tensor,
    k: Tensor | None,
    weights: tuple[Tensor | None, Tensor | None],
    norm: str,
    rope: Any,
    *rest: Any,
) -> Any:
    tensors = [q] if k is None else [q, k]
    text = rope if isinstance(rope, str) else rope_text(rope)
    results = op(tensors, _weights(tensors, list(weights), norm), text, *rest)
    if results is None:  # in place
        results = tensors
    return results[0] if k is None else tuple(results)


def qk_norm_rope(
    q: Tensor,
    k: Tensor | None = None,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    *,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    eps: float = 1e-6,
    norm: str = "rms",
    rounding: str = "tensor",
    token_dim: int = -3,
) -> Any:
    """Normalises each head of q and k, then rotates it, into new tensors. Without k, one result.
    Tensors and positions are those of rotate(); weights are [head_dim]."""
    rest = (positions, cu_seqlens, first, token_dim, eps, norm, rounding)
    return _call(ops.norm_rotate.default, q, k, (q_weight, k_weight), norm, rope, *rest)


def qk_norm_rope_(
    q: Tensor,
    k: Tensor | None = None,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    *,
    rope: Any,
    positions: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    first: int = 0,
    eps: float = 1e-6,
    norm: str = "rms",
    rounding: str = "tensor",
    token_dim: int = -3,
) -> Any:
    """qk_norm_rope() in place. Returns its tensors."""
    rest = (positions, cu_seqlens, first, token_dim, eps, norm, rounding)
    return _call(ops.norm_rotate_.default, q, k, (q_weight, k_weight), norm, rope, *rest)
