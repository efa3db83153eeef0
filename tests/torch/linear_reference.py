"""Linear attention written out in float64: every weight of every pair, no associativity."""

import json

import torch
from ropes import reference
from torch import Tensor


def turned(x: Tensor, rope: str, positions: Tensor | None) -> Tensor:
    """x [batch, heads, tokens, head_dim] rotated."""
    if not rope:
        return x
    if positions is None:
        positions = torch.arange(x.shape[2])
    at = positions.expand(json.loads(rope).get("axes", 1), 1, -1)
    return reference(x, rope, at, token_dim=-2)


def phi(x: Tensor, feature_map: str, projection: Tensor | None, *, key: bool, causal: bool):
    if feature_map == "elu":
        return torch.nn.functional.elu(x) + 1.0
    if feature_map == "relu":
        return x.clamp_min(0.0)
    small = x / x.shape[-1] ** 0.25
    h = torch.stack([(small * w).sum(-1) for w in projection.double()], -1)
    if not key:
        c = h.amax(-1, keepdim=True)
    else:
        c = 0.0 * h if causal else h.amax((-2, -1), keepdim=True)
    h = h - (small * small).sum(-1, keepdim=True) / 2 - c.detach()
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
    same: Tensor | None = None,
) -> Tensor:
    """[batch, heads, queries, value_dim], float64; `same` [queries, keys] says who may see whom."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    key_positions = positions if key_positions is None else key_positions
    if padding is not None and feature_map == "favor":  # its stabiliser is over tokens
        k = k * padding[:, None, :, None]

    def features(x: Tensor, key: bool) -> Tensor:
        return phi(x, feature_map, projection, key=key, causal=causal)

    def scores(a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("bhif,bhjf->bhij", a, b)

    if variant == "cosine":
        rq, rk = turned(q, rope, positions), turned(k, rope, key_positions)
        norms = rq.norm(dim=-1)[..., :, None] * rk.norm(dim=-1)[..., None, :]
        above = below = 1.0 + scores(rq, rk) / norms
    elif variant == "before":
        rq, rk = turned(q, rope, positions), turned(k, rope, key_positions)
        above = below = scores(features(rq, False), features(rk, True))
    else:
        pq, pk = features(q, False), features(k, True)
        below = scores(pq, pk)
        above = scores(turned(pq, rope, positions), turned(pk, rope, key_positions))
    sees = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    if causal:
        sees = sees.tril()
    if same is not None:
        sees = sees & same
    sees = sees[None, None]
    if padding is not None:
        sees = sees & padding[:, None, None]
    above, below = above.where(sees, 0.0), below.where(sees, 0.0)
    divisor = below.sum(-1)
    if variant == "rotated":
        least = (guard * divisor).clamp_min(1e-6)
        own = above.sum(-1)
        divisor = own.where(own.abs() >= least, least * torch.where(own < 0, -1.0, 1.0))
    else:
        divisor = divisor.clamp_min(1e-6)
    return torch.einsum("bhij,bhje->bhie", above, v) / divisor[..., None]
