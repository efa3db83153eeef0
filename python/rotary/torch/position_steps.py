# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Content-dependent positions: the model decides how far a token is from the one before it.

steps = rotary.torch.PositionSteps(512)
q, k = embedding(q, k, positions=steps(x))
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class PositionSteps(nn.Module):
    """Positions as the running sum of steps, softplus(w x + b), which are positive; 0 at the first
    token. w begins at 0 and b such that all steps are 1: the ordinary positions.

    heads: steps of each head; 0: one step for all heads of a token.

    Parameters weight [1 or heads, model_dim] and bias [1 or heads], as in
    rotary/transformer/position_steps.h.
    """

    def __init__(
        self,
        model_dim: int,
        heads: int = 0,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if model_dim < 1 or heads < 0:
            raise ValueError(
                "[PositionSteps] model_dim must be positive and heads not negative, "
                f"got {model_dim} and {heads}"
            )
        self.heads = heads
        options = {"device": device, "dtype": dtype or torch.float32}
        self.weight = nn.Parameter(torch.empty(max(heads, 1), model_dim, **options))
        self.bias = nn.Parameter(torch.empty(max(heads, 1), **options))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to steps of 1."""
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.bias, math.log(math.e - 1))

    def forward(
        self, x: Tensor, cu_seqlens: Tensor | None = None, last: Tensor | None = None
    ) -> Tensor:
        """Positions of x [batch, tokens, model_dim]: [batch, tokens], or [batch, heads, tokens];
        float64.

        cu_seqlens: sequences packed into the one row of x, each from 0.
        last: [batch] or [batch, heads], the position of the token before the first one.
        """
        if x.dim() != 3:
            raise ValueError(
                f"[PositionSteps] x must be [batch, tokens, model_dim], got {tuple(x.shape)}"
            )
        if cu_seqlens is not None and (x.shape[0] != 1 or last is not None):
            raise ValueError(
                "[PositionSteps] packed sequences are in one row, without a last position"
            )
        kind = torch.promote_types(x.dtype, torch.float32)
        logits = functional.linear(x.to(kind), self.weight.to(kind), self.bias.to(kind))
        positions = functional.softplus(logits).double().cumsum(1)
        if last is not None:
            positions = positions + (last if self.heads else last.unsqueeze(-1)).unsqueeze(1)
        elif cu_seqlens is not None:
            begins = cu_seqlens.long()
            tokens = torch.arange(x.shape[1], device=x.device)
            sequence = torch.searchsorted(begins[1:].contiguous(), tokens, right=True)
            sequence = sequence.clamp_max(len(begins) - 2)
            positions = positions - positions[:, begins[sequence]]
        else:
            positions = positions - positions[:, :1]
        return positions.transpose(1, 2) if self.heads else positions.squeeze(-1)

    def extra_repr(self) -> str:
        return f"model_dim={self.weight.shape[1]}, heads={self.heads}"
