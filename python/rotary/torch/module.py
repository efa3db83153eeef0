# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation as a module.

    embedding = rotary.torch.RotaryEmbedding.from_pretrained("Qwen2.5-7B/", token_dim=-2)
    q, k = embedding(q, k, positions=position_ids)

Its rope is a text, never a tensor: .half(), .to_empty(), meta devices and checkpoints cannot change
the rotation. Parameters exist only if something is learned, and are relative to the exact
frequencies.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from . import functional
from ._library import ops
from .text import rope_text, with_inverse_growth

Learned = Literal["log_gain", "frequencies", "receptive_field", "per_head"]


def _in_random_directions(frequencies: Tensor, heads: int) -> Tensor:
    """[heads, pairs, axes] of [pairs, axes]: turned by a random rotation of the axes for each head.
    With one axis, as they are."""
    axes = frequencies.shape[1]
    if axes == 1:
        return frequencies.expand(heads, -1, -1)
    if axes > 2:
        directions = torch.linalg.qr(torch.randn(heads, axes, axes, dtype=frequencies.dtype))[0]
        turned: Tensor = frequencies @ directions.mT
        return turned
    angle = torch.rand(heads, 1, dtype=frequencies.dtype) * (2 * math.pi)
    x, y = frequencies.unbind(1)
    return torch.stack((angle.cos() * x - angle.sin() * y, angle.sin() * x + angle.cos() * y), -1)


class RotaryEmbedding(nn.Module):
    """Rotates queries and keys, or any tensors that share batch and tokens.

    rope: a rotary.Rope (1-D to 3-D, axial, M-RoPE, RoPE-Mixed), a rotary.ModelRope or a text.
    token_dim: -3 for [.., tokens, heads, head_dim], -2 for [.., heads, tokens, head_dim].
    learn: parameters in radians per position, initialised to 0, which is the rope as given:
        "log_gain"         a [pairs]:              f * exp(a)
        "frequencies"      d [pairs, axes]:        f + d
        "receptive_field"  alpha [1]:              alpha / 10000^rho + (1 - alpha) f
        "per_head"         d [heads, pairs, axes]: f + d (RoPE-Mixed)
        With "per_head" and several axes a head begins with f in a random direction: an axial rope
        of two axes gives RoPE-Mixed's initialisation. Tensors have `heads` heads, or a multiple:
        then heads in a row share frequencies.
    learn_scale: a parameter log_scale [1] as well: cos and sin times exp(log_scale).
    """

    def __init__(
        self,
        rope: Any,
        *,
        token_dim: int = -3,
        learn: Learned | None = None,
        learn_scale: bool = False,
        rho: float = 1.0,
        heads: int = 0,
        one_axis: str = "refused",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.rope = rope_text(rope, one_axis=one_axis)
        self.key_rope = with_inverse_growth(self.rope)
        self.token_dim = token_dim
        self.learn = learn
        self.rho = rho
        self.scale = float(json.loads(self.rope).get("scale", 1.0))
        pairs, axes = ops.frequencies_like(torch.empty(0, device="cpu"), self.rope).shape
        shapes = {
            "log_gain": (pairs,),
            "frequencies": (pairs, axes),
            "receptive_field": (1,),
            "per_head": (heads, pairs, axes),
        }
        if learn is not None and learn not in shapes:
            raise ValueError(
                f"[RotaryEmbedding] learn must be one of {list(shapes)}, got {learn!r}"
            )
        if learn == "per_head" and heads < 1:
            raise ValueError(
                f"[RotaryEmbedding] heads must be positive to learn per head, got {heads}"
            )
        options = {"device": device, "dtype": dtype or torch.float32}
        self.learned = nn.Parameter(torch.empty(shapes[learn], **options)) if learn else None
        self.log_scale = nn.Parameter(torch.empty(1, **options)) if learn_scale else None
        #: Whether there are parameters. An attribute, because looking up a parameter is slower.
        self.learns = learn is not None or learn_scale
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls, model: Any, rope: str = "", *, context: int = 0, **options: Any
    ) -> RotaryEmbedding:
        """The rotation of a model: a config.json, a folder or a .gguf file by its path, the dict of
        a config, or a config of transformers. `rope` names one of several, `context` is the number
        of positions in use for recipes that depend on it. `options` are those of the constructor.
        """
        from rotary.model import load_model
        from rotary.recipe import Mrope

        found = load_model(model).rope(rope)
        if isinstance(found.recipe.axes, Mrope):
            options.setdefault("one_axis", "on_all_axes")
        return cls(found.make_rope(context), **options)

    def reset_parameters(self) -> None:
        """Back to the rope as given, or with "per_head" to new random directions."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        if self.learn == "per_head" and self.learned is not None:
            base = ops.frequencies_like(torch.empty(0, device="cpu"), self.rope)
            with torch.no_grad(), torch.device("cpu"):
                start = _in_random_directions(base, self.learned.shape[0])
                self.learned.copy_(start - base)

    @property
    def softmax_scale(self) -> float:
        """Factor of attention scores besides 1/sqrt(head_dim)."""
        return float(json.loads(self.rope).get("softmax_scale", 1.0))

    def frequencies(self) -> Tensor:
        """[pairs, axes], or [heads, pairs, axes] with "per_head"; float64, differentiable."""
        like = self._any_parameter() if self.learned is None else self.learned
        base: Tensor = ops.frequencies_like(like, self.rope)
        if self.learned is None:
            return base
        learned = self.learned.double()
        if self.learn == "log_gain":
            return base * learned.exp().unsqueeze(-1)
        if self.learn in ("frequencies", "per_head"):
            return base + learned
        shared: float = 10000.0**-self.rho
        return learned * shared + (1.0 - learned) * base

    def _any_parameter(self) -> Tensor:
        return torch.empty(0) if self.log_scale is None else self.log_scale

    def forward(
        self,
        q: Tensor,
        k: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
    ) -> Any:
        """q and k rotated, or q alone. Positions: see rotary.torch.functional."""
        if k is None:
            return self._apply_op("rotate", self.rope, (q,), positions, cu_seqlens, first)[0]
        if self.key_rope == self.rope:
            if not self.learns:  # the most frequent call, directly
                return functional.rotate_all(
                    (q, k), self.rope, positions, cu_seqlens, first, self.token_dim
                )
            return self._apply_op("rotate", self.rope, (q, k), positions, cu_seqlens, first)
        return (
            self._apply_op("rotate", self.rope, (q,), positions, cu_seqlens, first)[0],
            self._apply_op("rotate", self.key_rope, (k,), positions, cu_seqlens, first)[0],
        )

    def unrotate(
        self,
        *tensors: Tensor,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
    ) -> Any:
        """The inverse of the rotation of q."""
        results = self._apply_op("unrotate", self.rope, tensors, positions, cu_seqlens, first)
        return results[0] if len(tensors) == 1 else results

    def shift(self, *keys: Tensor, delta: int | Tensor, cu_seqlens: Tensor | None = None) -> Any:
        """Moves rotated keys by `delta`. Not for learned frequencies."""
        self._refuse_learned("shift")
        return functional.shift(
            *keys, rope=self.key_rope, delta=delta, cu_seqlens=cu_seqlens, token_dim=self.token_dim
        )

    def rotate_(
        self,
        *tensors: Tensor,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
    ) -> Any:
        """In place, every tensor as a query. Not for learned frequencies."""
        self._refuse_learned("rotate_")
        return functional.rotate_(
            *tensors,
            rope=self.rope,
            positions=positions,
            cu_seqlens=cu_seqlens,
            first=first,
            token_dim=self.token_dim,
        )

    def _refuse_learned(self, function: str) -> None:
        if self.learns:
            raise ValueError(f"[{function}] not for a rope with learned parameters")

    def _apply_op(
        self,
        op: str,
        rope: str,
        tensors: tuple[Tensor, ...],
        positions: Tensor | None,
        cu_seqlens: Tensor | None,
        first: int,
    ) -> tuple[Tensor, ...]:
        token_positions = (positions, cu_seqlens, first, self.token_dim)
        if self.learns:
            learned = (self.frequencies(), self._scale())
            return tuple(ops.rotate_learned.default(tensors, rope, *learned, *token_positions, op))
        apply = functional.rotate_all if op == "rotate" else functional.unrotate_all
        results = apply(tensors, rope, *token_positions)
        return (results,) if len(tensors) == 1 else results

    def _scale(self) -> Tensor | None:
        if self.log_scale is None:
            return None
        return self.log_scale.double().exp() * self.scale

    def extra_repr(self) -> str:
        fields = json.loads(self.rope)
        parts = [f"{key}={fields[key]!r}" for key in fields if key not in ("frequencies", "growth")]
        parts += [f"learn={self.learn!r}"] if self.learn else []
        return ", ".join([*parts, f"token_dim={self.token_dim}"])
