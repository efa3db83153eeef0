"""Linear attention in float64, quadratic: every weight of every query and key."""

import json

import torch
from ropes import reference
from torch import Tensor


def rotated(x: Tensor, rope: str, positions: Tensor | None) -> Tensor:
    """x [batch, heads, tokens, head_dim] rotated."""
    if not rope:
        return x
    if positions is None:
        positions = torch.arange(x.shape[2])
    per_axis = positions.expand(json.loads(rope).get("axes", 1), 1, -1)
    return reference(x, rope, per_axis, token_dim=-2)


def phi(x: Tensor, feature_map: str, projection: Tensor | None, *, key: bool, causal: bool):
    if feature_map == "elu":
        return torch.nn.functional.elu(x) + 1.0
    if feature_map == "relu":
        return x.clamp_min(0.0)
    scaled = x / x.shape[-1] ** 0.25
    h = torch.stack([(scaled * w).sum(-1) for w in projection.double()], -1)
    if not key:
        c = h.amax(-1, keepdim=True)
    else:
        c = 0.0 * h if causal else h.amax((-2, -1), keepdim=True)
    h = h - (scaled * scaled).sum(-1, keepdim=True) / 2 - c.detach()
    return (h.exp() + 1e-4) / len(projection) ** 0.5


def quadratic(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rope: str = "",
    variant: str = "numerator",
    feature_map: str = "elu",
    projection: Tensor | None = None,
    causal: bool = False,
    padding: Tensor | None = None,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    guard: float = 0.01,
    decay: Tensor | None = None,
    same: Tensor | None = None,
) -> Tensor:
    """[batch, heads, queries, value_dim], float64; `same` [queries, keys]: an additional mask."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    key_positions = positions if key_positions is None else key_positions
    if padding is not None and feature_map == "favor":  # its stabiliser is a maximum over tokens
        k = k * padding[:, None, :, None]

    def features(x: Tensor, key: bool) -> Tensor:
        return phi(x, feature_map, projection, key=key, causal=causal)

    def scores(a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("bhif,bhjf->bhij", a, b)

    if variant == "cosine":
        rq, rk = rotated(q, rope, positions), rotated(k, rope, key_positions)
        norms = rq.norm(dim=-1)[..., :, None] * rk.norm(dim=-1)[..., None, :]
        numerator = denominator = 1.0 + scores(rq, rk) / norms
    elif variant == "before":
        rq, rk = rotated(q, rope, positions), rotated(k, rope, key_positions)
        numerator = denominator = scores(features(rq, False), features(rk, True))
    else:
        pq, pk = features(q, False), features(k, True)
        denominator = scores(pq, pk)
        numerator = scores(rotated(pq, rope, positions), rotated(pk, rope, key_positions))
    visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    if causal:
        visible = visible.tril()
    if same is not None:
        visible = visible & same
    visible = visible[None, None]
    if padding is not None:
        visible = visible & padding[:, None, None]
    numerator, denominator = numerator.where(visible, 0.0), denominator.where(visible, 0.0)
    if decay is not None:
        index = torch.arange(q.shape[2], dtype=torch.float64)
        slopes = decay.double().repeat_interleave(group)[:, None, None]
        falls = (-slopes * (index[:, None] - index).abs()).exp()
        numerator, denominator = numerator * falls, denominator * falls
    divisor = denominator.sum(-1)
    if variant == "rotated":
        smallest = (guard * divisor).clamp_min(1e-6)
        rotated_sum = numerator.sum(-1)
        divisor = rotated_sum.where(
            rotated_sum.abs() >= smallest, smallest * torch.where(rotated_sum < 0, -1.0, 1.0)
        )
    else:
        divisor = divisor.clamp_min(1e-6)
    return torch.einsum("bhij,bhje->bhie", numerator, v) / divisor[..., None]
