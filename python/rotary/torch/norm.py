# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A norm of queries and keys, and their rotation, in one pass.

q, k = rotary.torch.qk_norm_rope(q, k, q_norm.weight, k_norm.weight, rope=text)

norm      "rms"           torch.nn.functional.rms_norm of each head, times its weight
          "rms_one_plus"  times 1 + weight, as in Gemma
          "layer"         LayerNorm, with weights and biases
          "none"          rotation alone
rounding  "tensor"        to the tensors' type after the norm, and after the rotation: the bits
                          of rms_norm, then rotate
          "float32"       once, at the end
          "every_step"    also before the weight: the RMS norms of Llama, Qwen3 and GLM in
                          transformers
scope     "head"          each head has its norm; weights are [head_dim]
          "all_heads"     the heads of a token share one (OLMo 2); weights are [heads * head_dim]
order     "before"        norm, then rotation
          "after"         rotation, then norm
inverse   True            the rotation is that of unrotate
cos, sin  tensors         rotate by this table, as rotate_by_table does: a row for each token. Only
                          the layout of the head is taken from the rope
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ._library import ops
from .text import rope_text


def _filled(
    tensors: list[Tensor], given: list[Tensor | None], like: list[Tensor | None], nothing: float
) -> list[Tensor]:
    """None for all tensors, or one for each: what changes nothing where one has none."""
    if all(w is None for w in given):
        return []
    found = [w if w is not None else other for w, other in zip(given, like)]
    return [
        x.new_full(x.shape[-1:] if size is None else size.shape, nothing) if w is None else w
        for x, w, size in zip(tensors, given, found)
    ]


def _call(
    op: Any,
    tensors: list[Tensor],
    weights: list[Tensor | None],
    biases: list[Tensor | None],
    angles: tuple[Any, ...],
    norm: dict[str, Any],
) -> Any:
    kind = norm["norm"]
    has_bias = any(b is not None for b in biases)
    if kind == "none":
        weights = [None] * len(tensors)
    nothing = 0.0 if kind == "rms_one_plus" else 1.0
    if has_bias and all(w is None for w in weights):  # biases never come without weights
        weights = [None if b is None else b.new_ones(b.shape) for b in biases]
    all_weights = _filled(tensors, weights, biases, nothing)
    all_biases = _filled(tensors, biases, weights, 0.0)
    results = op(
        tensors,
        all_weights,
        all_biases,
        *angles,
        norm["eps"],
        kind,
        norm["rounding"],
        norm["scope"],
        norm["order"],
        norm["inverse"],
    )
    if results is None:  # in place
        results = tensors
    return results[0] if len(tensors) == 1 else tuple(results)


_BY_TABLE = {"norm_rotate": "norm_rotate_table", "norm_rotate_": "norm_rotate_table_"}


def _qk(name: str, docstring: str) -> Any:
    """The function of an operator: both have the same arguments. The operator is looked up in a
    call, since the library for PyTorch's stable ABI has none."""

    def qk_norm_rope(
        q: Tensor,
        k: Tensor | None = None,
        q_weight: Tensor | None = None,
        k_weight: Tensor | None = None,
        q_bias: Tensor | None = None,
        k_bias: Tensor | None = None,
        *,
        rope: Any,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        eps: float = 1e-6,
        norm: str = "rms",
        rounding: str = "tensor",
        scope: str = "head",
        order: str = "before",
        inverse: bool = False,
        cos: Tensor | None = None,
        sin: Tensor | None = None,
        token_dim: int = -3,
    ) -> Any:
        options = {
            "eps": eps,
            "norm": norm,
            "rounding": rounding,
            "scope": scope,
            "order": order,
            "inverse": inverse,
        }
        text = rope if isinstance(rope, str) else rope_text(rope)
        if cos is None and sin is None:
            op = getattr(ops, name).default
            angles: tuple[Any, ...] = (text, positions, cu_seqlens, first, token_dim)
        elif cos is None or sin is None:
            raise ValueError(f"[{name}] cos and sin come together")
        elif positions is not None or cu_seqlens is not None or first != 0:
            raise ValueError(f"[{name}] a table has a row for each token: no positions beside it")
        else:
            op = getattr(ops, _BY_TABLE[name]).default
            angles = (cos, sin, text, token_dim)
        if k is None:
            return _call(op, [q], [q_weight], [q_bias], angles, options)
        return _call(op, [q, k], [q_weight, k_weight], [q_bias, k_bias], angles, options)

    qk_norm_rope.__doc__ = docstring
    return qk_norm_rope


qk_norm_rope = _qk(
    "norm_rotate",
    """Normalises each head of q and k and rotates it, into new tensors. Without k, one result.
    Tensors and positions are those of rotate().""",
)
qk_norm_rope_ = _qk("norm_rotate_", """qk_norm_rope() in place. Returns its tensors.""")
qk_norm_rope_.__name__ = qk_norm_rope_.__qualname__ = "qk_norm_rope_"
qk_norm_rope.__qualname__ = "qk_norm_rope"
