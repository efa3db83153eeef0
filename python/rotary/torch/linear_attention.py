# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Linear attention with RoPE: a function over queries, keys and values, a state, and a module.

    y = rotary.torch.linear_attend(q, k, v, rope=rope, causal=True)
    attention = rotary.torch.LinearAttention(512, 8, rope=rope, causal=True)

Time and memory are O(tokens). docs/attention.md has the formulas of the variants. The C++ module
of rotary/transformer/linear_attention.h has the same parameters by the same names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._library import ops
from ._projections import Projections
from .module import RotaryEmbedding
from .text import rope_text

VARIANTS = ("numerator", "cosine", "rotated", "before")
FEATURE_MAPS = ("elu", "relu", "favor")


@dataclass
class LinearState:
    """The tokens so far, in constant size: float32, for float64 float64. Carries no gradient.

    kv: [batch, kv_heads, F, value_dim], the sum of R phi(k) v^T; "cosine" has one more row.
    k: [batch, kv_heads, ..], the sums of the denominator.
    """

    kv: Tensor | None = None
    k: Tensor | None = None
    tokens: int = 0

    def reorder(self, rows: Tensor) -> None:
        """Row b becomes the former row rows[b]: beam search."""
        if self.kv is not None and self.k is not None:
            self.kv, self.k = self.kv[rows], self.k[rows]


def _text(rope: Any) -> str:
    return "" if rope is None else rope_text(rope)


def linear_attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rope: Any = None,
    variant: str = "numerator",
    feature_map: str = "elu",
    projection: Tensor | None = None,
    causal: bool = False,
    padding: Tensor | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    first: int = 0,
    cu_seqlens: Tensor | None = None,
    frequencies: Tensor | None = None,
    scale: Tensor | None = None,
    guard: float = 0.01,
    decay: Tensor | None = None,
    state: LinearState | None = None,
) -> Tensor:
    """Over [batch, heads, tokens, head_dim]. k and v may have fewer heads than q, a divisor of
    their number, and v another head_dim. A query that sees no key gives 0.

    variant: the weight of key j for query i, before division by the sum over j
        numerator  (R phi(q)).(R phi(k)), divided by the sum of phi(q).phi(k)
        cosine     1 + cos(R q, R k)
        rotated    (R phi(q)).(R phi(k)), divided by its own sum, which `guard` keeps from 0
        before     phi(R q).phi(R k)
    feature_map: phi, "elu" (elu + 1), "relu" or "favor", random features of `projection`
        [features, head_dim]; a rope that rotates them has head_dim = features.
    padding: bool [batch, keys], true where there is a token.
    positions, first: as in rotate(); key_positions where those of keys differ.
    cu_seqlens: packed sequences in a batch of 1; read on the host.
    frequencies, scale: learned ones, instead of the rope's own.
    decay: real numbers [heads of k], not negative: the weight of key j for query i is multiplied
        by e^(-decay |i - j|), in the numerator and in the denominator. i and j count tokens,
        whatever their positions. As many queries as keys; differentiable.
    state: the tokens before these, which are added to it. Needs causal.
    """
    common: dict[str, Any] = {
        "rope": _text(rope),
        "variant": variant,
        "feature_map": feature_map,
        "projection": projection,
        "padding": padding,
        "positions": positions,
        "frequencies": frequencies,
        "scale": scale,
        "guard": guard,
        "decay": decay,
    }
    if state is None:
        result: Tensor = ops.linear_attend(
            q,
            k,
            v,
            causal=causal,
            key_positions=key_positions,
            first=first,
            cu_seqlens=cu_seqlens,
            **common,
        )
        return result
    if not causal or first != 0 or cu_seqlens is not None or key_positions is not None:
        raise ValueError(
            "[linear_attend] a state is for causal attention of one sequence a row, and knows "
            "where it goes on: first, cu_seqlens and key_positions are not for it"
        )
    out, state.kv, state.k = ops.linear_attend_step(
        q, k, v, state.kv, state.k, first=state.tokens, **common
    )
    state.tokens += q.shape[2]
    stepped: Tensor = out
    return stepped


def orthogonal_features(
    features: int, head_dim: int, generator: torch.Generator | None = None
) -> Tensor:
    """FAVOR+'s projection [features, head_dim], float32: blocks of head_dim orthogonal directions,
    each as long as a Gaussian vector."""
    result: Tensor = ops.orthogonal_features(features, head_dim, generator=generator)
    return result


def default_features(head_dim: int) -> int:
    """head_dim ln(head_dim), to the nearest multiple of 64."""
    return 64 * max(1, round(head_dim * math.log(head_dim) / 64))


class LinearAttention(Projections):
    """Linear layers `query`, `key`, `value` and `output` around linear_attend():
    [batch, tokens, model_dim] to the same.

    rope: a rotary.Rope, its text, or a RotaryEmbedding, whose learned frequencies are then used; it
        becomes the submodule `embedding`. None: no positions.
    features: FAVOR+ has a buffer `projection` [features, head_dim]; redraw() draws another, and
        forward() does so in training every `redraw_every` calls.
    decay: weights fall by e^(-decay |i - j|): a number for all heads, a tensor [kv_heads], or True
        for ALiBi's slopes, 2^(-8 h / heads) in head h = 1, 2, ..; it becomes the buffer `decay`.
        With learn_decay its logarithm is the parameter `log_decay` instead.
    """

    projection: Tensor | None
    decay: Tensor | None

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        rope: Any = None,
        variant: str = "numerator",
        feature_map: str = "elu",
        features: int | None = None,
        redraw_every: int = 0,
        causal: bool = False,
        guard: float = 0.01,
        decay: bool | float | Tensor | None = None,
        learn_decay: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            model_dim,
            heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            value_dim=value_dim,
            bias=bias,
            output_bias=bias,
            device=device,
            dtype=dtype,
        )
        if variant not in VARIANTS or feature_map not in FEATURE_MAPS:
            raise ValueError(
                f"[LinearAttention] variant must be one of {VARIANTS} and feature_map one of "
                f"{FEATURE_MAPS}, got {variant!r} and {feature_map!r}"
            )
        self.variant, self.feature_map = variant, feature_map
        self.redraw_every, self.causal, self.guard = redraw_every, causal, guard
        if isinstance(rope, RotaryEmbedding) or rope is None:
            self.embedding = rope
        else:
            self.embedding = RotaryEmbedding(rope, token_dim=-2)
        drawn = None
        if feature_map == "favor" and variant != "cosine":
            count = default_features(self.head_dim) if features is None else features
            drawn = orthogonal_features(count, self.head_dim).to(device)
        self.register_buffer("projection", drawn)
        self._register_decay(decay, learn_decay, device)
        self._calls = 0

    def _register_decay(
        self, decay: bool | float | Tensor | None, learn: bool, device: Any
    ) -> None:
        values = None
        if decay is True:
            values = ops.alibi_slopes(torch.empty(0, device=device), self.kv_heads)
        elif isinstance(decay, Tensor):
            values = decay.detach().clone().to(device)
        elif decay is not None and decay is not False:
            values = torch.full((self.kv_heads,), float(decay), device=device)
        if values is not None and not (values.shape == (self.kv_heads,) and (values >= 0).all()):
            raise ValueError(
                f"[LinearAttention] decay must be {self.kv_heads} numbers that are not negative, "
                f"got {values.tolist()}"
            )
        if learn and (values is None or not (values > 0).all()):
            raise ValueError("[LinearAttention] learn_decay needs a decay above 0 to begin with")
        self.register_buffer("decay", None if learn else values)
        self.log_decay = torch.nn.Parameter(values.log()) if learn and values is not None else None

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """FAVOR+: draws a new projection."""
        if self.projection is not None:
            features, head_dim = self.projection.shape
            self.projection.copy_(orthogonal_features(features, head_dim, generator))

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        state: LinearState | None = None,
    ) -> Tensor:
        """padding: bool [batch, tokens], true where there is a token. positions: by default from 0,
        or from the end of the state on. state: the tokens before these, which are added to it."""
        if self.training and self.redraw_every > 0:
            self._calls += 1
            if self._calls % self.redraw_every == 0:
                self.redraw()
        q, k, v = (t.transpose(1, 2) for t in self.project(x, x))
        y = linear_attend(
            q,
            k,
            v,
            variant=self.variant,
            feature_map=self.feature_map,
            projection=self.projection,
            causal=self.causal,
            padding=padding,
            positions=positions,
            cu_seqlens=cu_seqlens,
            guard=self.guard,
            decay=self.decay if self.log_decay is None else self.log_decay.exp(),
            state=state,
            **self._rotation(),
        )
        return self.join(y)

    def _rotation(self) -> dict[str, Any]:
        embedding = self.embedding
        if embedding is None:
            return {}
        if embedding.learned is None and embedding.log_scale is None:
            return {"rope": embedding.rope}
        return {
            "rope": embedding.rope,
            "frequencies": embedding.frequencies().to(self.query.weight.device),
            "scale": embedding._scale(),
        }

    def extra_repr(self) -> str:
        parts = [super().extra_repr()]
        parts += [f"variant={self.variant!r}, feature_map={self.feature_map!r}"]
        return ", ".join(parts + (["causal=True"] if self.causal else []))
