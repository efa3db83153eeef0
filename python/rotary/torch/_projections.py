# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Projections of Attention and LinearAttention: head sizes and linear layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Projections(nn.Module):
    """Linear layers `query` and `output` of model_dim, `key` and `value` of kv_dim, for `heads`
    heads of queries and `kv_heads` of keys and values."""

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        kv_heads: int | None,
        head_dim: int | None,
        value_dim: int | None = None,
        kv_dim: int | None = None,
        bias: bool,
        output_bias: bool,
        device: Any,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if model_dim <= 0 or heads <= 0:
            raise ValueError(
                f"[{name}] model_dim and heads must be positive, got {model_dim} and {heads}"
            )
        if head_dim is None and model_dim % heads != 0:
            raise ValueError(f"[{name}] heads must divide model_dim, got {heads} and {model_dim}")
        self.model_dim, self.heads = model_dim, heads
        self.kv_heads = heads if kv_heads is None else kv_heads
        if self.kv_heads <= 0 or heads % self.kv_heads != 0:
            raise ValueError(
                f"[{name}] kv_heads must divide heads, got {self.kv_heads} and {heads}"
            )
        self.head_dim = model_dim // heads if head_dim is None else head_dim
        self.value_dim = self.head_dim if value_dim is None else value_dim
        self.kv_dim = model_dim if kv_dim is None else kv_dim
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.query = nn.Linear(model_dim, heads * self.head_dim, bias=bias, **options)
        self.key = nn.Linear(self.kv_dim, self.kv_heads * self.head_dim, bias=bias, **options)
        self.value = nn.Linear(self.kv_dim, self.kv_heads * self.value_dim, bias=bias, **options)
        self.output = nn.Linear(heads * self.value_dim, model_dim, bias=output_bias, **options)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q of x, k and v of memory: [batch, tokens, heads, head_dim]."""
        q = self.query(x).unflatten(-1, (self.heads, self.head_dim))
        k = self.key(memory).unflatten(-1, (self.kv_heads, self.head_dim))
        v = self.value(memory).unflatten(-1, (self.kv_heads, self.value_dim))
        return q, k, v

    def join(self, y: Tensor) -> Tensor:
        """The output of [batch, heads, tokens, value_dim]."""
        result: Tensor = self.output(y.transpose(1, 2).flatten(2))
        return result

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}"
