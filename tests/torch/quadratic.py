"""Attention by its definition, in float64."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def is_visible(
    i: int, j: int, *, first: int = 0, causal: bool = False, window: int | None = None
) -> bool:
    """Whether key j is visible to query i, which is at position first + i."""
    position = first + i
    if causal and j > position:
        return False
    return window is None or abs(position - j) < window


def visible(queries: int, keys: int, **mask: object) -> Tensor:
    return torch.tensor(
        [[is_visible(i, j, **mask) for j in range(keys)] for i in range(queries)], dtype=torch.bool
    ).reshape(queries, keys)


def packed_visible(cu_q: list[int], cu_k: list[int], **mask: object) -> Tensor:
    """Block-diagonal mask; the last query of a sequence is at the position of its last key."""
    result = torch.zeros(cu_q[-1], cu_k[-1], dtype=torch.bool)
    for s in range(len(cu_q) - 1):
        rows, columns = cu_q[s + 1] - cu_q[s], cu_k[s + 1] - cu_k[s]
        block = visible(rows, columns, first=columns - rows, **mask)
        result[cu_q[s] : cu_q[s + 1], cu_k[s] : cu_k[s + 1]] = block
    return result


def quadratic(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | Callable[[int, int, int], Tensor] | None = None,
    scale: float | None = None,
) -> Tensor:
    """[batch, heads, tokens, head_dim]; mask broadcasts to [batch, heads, queries, keys]. Queries
    without visible keys give 0."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.to(q.device)
    weights = torch.where(mask, (scores - scores.amax(-1, keepdim=True).detach()).exp(), 0.0)
    total = weights.sum(-1, keepdim=True)
    weights = weights / torch.where(total == 0, 1.0, total)
    return torch.einsum("bhij,bhje->bhie", weights, v)
