# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""RoFormer's masked LM as one would write it for speed in PyTorch alone: one product for queries,
keys and values, scaled_dot_product_attention, the output layer at labelled tokens only. Made for
torch.compile; it takes the weights of transformers' RoFormerForMaskedLM.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


def rotation_table(length: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin, [length, head_dim / 2], float32."""
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-pairs / head_dim)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Adjacent pairs of x [batch, heads, length, head_dim], in float32."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, hidden: int, inner: int, heads: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=eps)
        self.up = nn.Linear(hidden, inner)
        self.down = nn.Linear(inner, hidden)
        self.norm = nn.LayerNorm(hidden, eps=eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        p = self.dropout if self.training else 0.0
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, dropout_p=p
        )
        y = self.output(y.transpose(1, 2).flatten(2))
        x = self.attention_norm(x + functional.dropout(y, p, self.training))
        y = self.down(functional.gelu(self.up(x)))
        return self.norm(x + functional.dropout(y, p, self.training))


class TunedRoFormer(nn.Module):
    """forward() is the loss over `labels` [count] at the tokens `indices` [count] of the
    concatenated rows; a label of -100 pads both to a constant size."""

    def __init__(self, config: object, dropout: float | None = None) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.layer_norm_eps
        self.dropout = config.hidden_dropout_prob if dropout is None else dropout
        self.words = nn.Embedding(config.vocab_size, hidden)
        self.types = nn.Embedding(config.type_vocab_size, hidden)
        self.norm = nn.LayerNorm(hidden, eps=eps)
        self.layers = nn.ModuleList(
            Layer(hidden, config.intermediate_size, config.num_attention_heads, self.dropout, eps)
            for _ in range(config.num_hidden_layers)
        )
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(
        self, ids: Tensor, indices: Tensor, labels: Tensor, cos: Tensor, sin: Tensor
    ) -> Tensor:
        x = self.norm(self.words(ids) + self.types.weight[0])
        x = functional.dropout(x, self.dropout, self.training)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = x.flatten(0, 1)[indices]
        x = self.transform_norm(functional.gelu(self.transform(x)))
        logits = functional.linear(x, self.words.weight, self.bias)
        return functional.cross_entropy(logits.float(), labels)

    def load(self, state: dict[str, Tensor]) -> None:
        """Weights of RoFormerForMaskedLM."""
        pairs: list[tuple[Tensor, Tensor]] = [(self.bias, state["cls.predictions.bias"])]

        def add(module: nn.Module, *names: str) -> None:
            for part in ("weight", "bias"):
                own = getattr(module, part, None)
                if own is not None:
                    pairs.append((own, torch.cat([state[f"{name}.{part}"] for name in names])))

        add(self.words, "roformer.embeddings.word_embeddings")
        add(self.types, "roformer.embeddings.token_type_embeddings")
        add(self.norm, "roformer.embeddings.LayerNorm")
        add(self.transform, "cls.predictions.transform.dense")
        add(self.transform_norm, "cls.predictions.transform.LayerNorm")
        for number, layer in enumerate(self.layers):
            prefix = f"roformer.encoder.layer.{number}."
            own = f"{prefix}attention.self."
            add(layer.qkv, f"{own}query", f"{own}key", f"{own}value")
            add(layer.output, f"{prefix}attention.output.dense")
            add(layer.attention_norm, f"{prefix}attention.output.LayerNorm")
            add(layer.up, f"{prefix}intermediate.dense")
            add(layer.down, f"{prefix}output.dense")
            add(layer.norm, f"{prefix}output.LayerNorm")
        with torch.no_grad():
            for own, given in pairs:
                own.copy_(given)


def labelled_tokens(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and labels [steps, count] of labels [steps, rows, length]: equally many in each step,
    the rest padded by token 0 with label -100."""
    flat = labels.flatten(1)
    each = [row.ne(-100).nonzero().squeeze(1) for row in flat]
    count = max(len(indices) for indices in each)
    indices = torch.zeros(len(each), count, dtype=torch.int64)
    chosen = torch.full((len(each), count), -100, dtype=torch.int64)
    for step, found in enumerate(each):
        indices[step, : len(found)] = found
        chosen[step, : len(found)] = flat[step, found]
    return indices, chosen
