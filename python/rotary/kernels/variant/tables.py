# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotation of q and k by tables of cos and sin, in one call, forward and backward."""

from __future__ import annotations

from functools import cache

from torch import Tensor

from .rotation import rotate_by_table


@cache
def _rope(head_dim: int, rotary_dim: int, pairing: str) -> str:
    """The layout of the head as a rope's text. Its theta is not used: the table has the angles."""
    return (
        f'{{"head_dim": {head_dim}, "rotary_dim": {rotary_dim}, "pairing": "{pairing}", '
        f'"theta": 1e4}}'
    )


def _token_dim(cos: Tensor, unsqueeze_dim: int) -> int:
    """Which dimension of q the tokens are: heads are where transformers unsqueezes cos."""
    index = unsqueeze_dim + cos.dim() + 1 if unsqueeze_dim < 0 else unsqueeze_dim
    if cos.dim() in (2, 3) and index == cos.dim() - 2:
        return -2
    if cos.dim() in (2, 3) and index == cos.dim() - 1:
        return -3
    raise ValueError(
        f"[apply_rotary] cos [.., tokens, columns] of {cos.dim()} dimensions cannot be broadcast "
        f"over heads at unsqueeze_dim {unsqueeze_dim}"
    )


def _pairs(head_dim: int, width: int, columns: str) -> int:
    """How many pairs a table of `width` columns rotates."""
    if columns not in ("auto", "once", "twice"):
        raise ValueError(f'[apply_rotary] columns must be "auto", "once" or "twice", got {columns}')
    once = columns == "once" or (columns == "auto" and 2 * width == head_dim)
    pairs = width if once else width // 2
    if pairs < 1 or 2 * pairs > head_dim or (not once and width % 2):
        raise ValueError(f"[apply_rotary] {width} columns do not fit heads of {head_dim}")
    return pairs


def apply_rotary(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
    *,
    pairing: str = "half",
    columns: str = "auto",
) -> tuple[Tensor, Tensor | None]:
    """q and k rotated, with gradients of q, k, cos and sin; k may be None, and then is None.

    q, k     [batch, heads, tokens, head_dim], or with unsqueeze_dim=2 [batch, tokens, heads,
             head_dim]; any strides and numbers of heads
    cos, sin [batch, tokens, columns] or [tokens, columns]; a batch of 1 is broadcast
    pairing  "half": elements i and i + rotary_dim / 2; "interleaved": 2 i and 2 i + 1
    columns  "twice": each cos twice, as halves, which is how transformers has them; the table is
             as wide as what it rotates, and the rest of the head stays. "once": one for each pair.
             "auto": once, if the table is half as wide as the head, or else twice
    """
    head_dim, width = q.shape[-1], cos.shape[-1]
    pairs = _pairs(head_dim, width, columns)
    if pairing == "interleaved" and width != pairs:  # the operator reads columns in pairing order
        cos, sin = cos[..., :pairs], sin[..., :pairs]
    text = _rope(head_dim, 2 * pairs, pairing)
    tensors = (q,) if k is None else (q, k)
    results = rotate_by_table(tensors, cos, sin, text, _token_dim(cos, unsqueeze_dim))
    return (results, None) if k is None else results
