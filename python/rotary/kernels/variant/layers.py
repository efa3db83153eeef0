# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Layers that stand in for apply_rotary_pos_emb of transformers' modelling files.

`kernels` takes their forward alone, as a method of another module: they have no state.
"""

from __future__ import annotations

from torch import Tensor, nn

from .tables import apply_rotary


class apply_rotary_transformers(nn.Module):  # noqa: N801 (the name that transformers looks for)
    """Pairs of halves (Llama and most): the whole head, by a table of head_dim or head_dim / 2
    columns; or its first elements, by a table of another number of columns."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        return apply_rotary(q, k, cos, sin, unsqueeze_dim)


class apply_rotary_partial_transformers(nn.Module):  # noqa: N801
    """Pairs of halves of the first elements of a head, as many as the table has columns: also
    where that is half of the head (partial_rotary_factor 0.5)."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        return apply_rotary(q, k, cos, sin, unsqueeze_dim, columns="twice")


class apply_rotary_interleaved_transformers(nn.Module):  # noqa: N801
    """Pairs of neighbours (GLM, Cohere, GPT-J), by a table of halves, as GLM's modules make it."""

    can_torch_compile = True
    has_backward = True

    def forward(
        self, q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor | None]:
        return apply_rotary(q, k, cos, sin, unsqueeze_dim, pairing="interleaved", columns="twice")


__all__ = [
    "apply_rotary_interleaved_transformers",
    "apply_rotary_partial_transformers",
    "apply_rotary_transformers",
]
