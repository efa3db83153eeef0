"""Ropes for the tests, and the reference rotation in float64."""

import json

import torch
from torch import Tensor

from rotary.torch.text import rope_text


def ladder(pairs: int, theta: float = 10000.0) -> list[float]:
    return [theta ** (-i / pairs) for i in range(pairs)]


def text(**fields: object) -> str:
    base = {"head_dim": 16, "pairing": "half"}
    if "theta" not in fields:
        base["frequencies"] = ladder(fields.get("head_dim", 16) // 2)
    return rope_text({**base, **fields})


def ropes(head_dim: int) -> dict[str, str]:
    pairs = head_dim // 2
    axes = [f if a == i % 3 else 0.0 for i, f in enumerate(ladder(pairs)) for a in range(3)]
    two_axes = [part for f in ladder(pairs) for part in (0.5 * f, -0.25 * f)]
    some = {
        "half": {},
        "interleaved": {"pairing": "interleaved"},
        "partial": {"frequencies": ladder(pairs * 5 // 8), "rotary_offset": pairs * 3 // 8},
        "reordering": {"pairing": "interleaved", "output_pairing": "half"},
        "scaled": {"scale": 1.25},
        "growing": {
            "growth": [0.01 * i for i in range(pairs)],
            "growth_origin": 2.0,
            "scale": 1.5,
        },
        "mrope": {"axes": 3, "frequencies": axes, "one_axis": "on_all_axes"},
        "mixed": {"axes": 2, "frequencies": two_axes, "pairing": "interleaved"},
    }
    return {name: text(head_dim=head_dim, **fields) for name, fields in some.items()}


ROPES = ropes(16)
#: For derivatives by differences, whose time grows with the square of the number of elements.
SMALL_ROPES = ropes(6)


def axes_of(rope: str) -> int:
    return json.loads(rope).get("axes", 1)


def matrix(rope: str, key: str, device: object = None) -> Tensor:
    fields = json.loads(rope)
    return torch.tensor(fields[key], dtype=torch.float64, device=device).reshape(
        -1, fields.get("axes", 1)
    )


def _pairs(head: Tensor, pairing: str) -> tuple[Tensor, Tensor]:
    if pairing == "half":
        return head.chunk(2, -1)
    return head[..., 0::2], head[..., 1::2]


def _join(x: Tensor, y: Tensor, pairing: str) -> Tensor:
    return torch.cat([x, y], -1) if pairing == "half" else torch.stack([x, y], -1).flatten(-2)


def reference(
    x: Tensor, rope: str, positions: Tensor, token_dim: int = -3, op: str = "rotate"
) -> Tensor:
    """z * x for positions [axes, batch or 1, tokens]; x is [.., tokens, heads, head_dim]."""
    fields = json.loads(rope)
    read = fields["pairing"]
    write = fields.get("output_pairing", read)
    f = matrix(rope, "frequencies", x.device)
    at = positions.double().to(x.device)
    phase = torch.einsum("abt,pa->btp", at.expand(f.shape[1], -1, -1), f)
    size = torch.full_like(phase, 1.0 if op == "shift" else fields.get("scale", 1.0))
    if "growth" in fields:
        past = at if op == "shift" else at - fields.get("growth_origin", 0.0)
        grown = torch.einsum("abt,pa->btp", past, matrix(rope, "growth", x.device))
        size = size * grown.exp()
    if op in ("adjoint", "unrotate"):
        read, write, phase = write, read, -phase
    if op == "shift":
        read = write
    if op == "unrotate":
        size = 1.0 / size
    heads = -2 if token_dim == -3 else -3
    c, s = (size * phase.cos()).unsqueeze(heads), (size * phase.sin()).unsqueeze(heads)
    begin = fields.get("rotary_offset", 0)
    end = begin + 2 * f.shape[0]
    wide = x.double()
    a, b = _pairs(wide[..., begin:end], read)
    rotated = _join(a * c - b * s, a * s + b * c, write)
    return torch.cat([wide[..., :begin], rotated, wide[..., end:]], -1)


def tolerance(dtype: torch.dtype) -> float:
    """A few ulp of results up to about 8; for float64 the rounding error of the angles."""
    return {torch.float64: 1e-11, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 4e-3}[
        dtype
    ]
