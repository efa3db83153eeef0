# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Norms before or after a rotation, in one pass with it: Rope.norm_rotate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import _core
from ._arrays import library_of
from ._calls import Call, Tensors


@dataclass(frozen=True)
class Norm:
    """A norm of heads, computed in float32.

    kind      "rms": x / sqrt(mean(x^2) + eps) * weight; "rms_one_plus": times 1 + weight, as in
              Gemma; "layer": LayerNorm, with weight and bias; "none": rotation alone
    rounding  "tensor": to the tensors' type after the norm, and after the rotation;
              "float32": once, at the end; "every_step": also before the weight, as the RMS norms of
              Llama, Qwen3 and GLM in transformers
    scope     "head": each head has its norm; "all_heads": the heads of a token share one (OLMo 2)
    order     "before" or "after" the rotation
    inverse   the rotation is that of Rope.unrotate
    """

    kind: Literal["none", "rms", "rms_one_plus", "layer"] = "rms"
    eps: float = 1e-6
    rounding: Literal["tensor", "float32", "every_step"] = "tensor"
    scope: Literal["head", "all_heads"] = "head"
    order: Literal["before", "after"] = "before"
    inverse: bool = False

    def given(self) -> tuple[str, float, str, str, str, bool]:
        """As the library takes it."""
        return (self.kind, self.eps, self.rounding, self.scope, self.order, self.inverse)


def norm_call(rope: _core.Rope, tensors: Tensors, weights: Any, biases: Any, norm: Norm) -> Call:
    """The call of a norm and rotation, with the rows of its tensors."""
    rows = [
        _rows(tensors, given, name) for given, name in [(weights, "weights"), (biases, "biases")]
    ]

    def call(ins: Tensors, outs: Any, at: _core.Positions, _stream: int) -> None:
        rope.norm_rotate(ins, outs, rows[0], rows[1], norm.given(), at)

    return call


def _rows(tensors: Sequence[Any], given: Any, name: str) -> tuple[Any, ...]:
    """One row or None for each tensor."""
    if given is None:
        return (None,) * len(tensors)
    rows = given if isinstance(given, (tuple, list)) else (given,)
    if len(rows) != len(tensors):
        raise ValueError(
            f"[norm_rotate] {name} must be one for each of {len(tensors)} tensors, got {len(rows)}"
        )
    return tuple(None if x is None else library_of(x).export(x, None, False) for x in rows)
