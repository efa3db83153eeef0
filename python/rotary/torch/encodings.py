# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""How attention knows where tokens stand: RoPE among its peers, behind one interface.

    encoding = rotary.torch.make_encoding("rope+alibi", heads=8, rope=rope)
    x = encoding.embed(x)                               # encodings of the input
    attention = rotary.torch.Attention(512, 8, encoding=encoding)

An encoding acts on the input (added to the vectors of tokens), on queries and keys (turns them), on
the score (a bias), or on several of these; what it does not act on it leaves alone. Each is as its
paper has it; docs/attention.md has the formulas. The C++ modules of rotary/torch_encodings.h have
the same parameters by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ._library import ops
from .module import Learned as Learn
from .module import RotaryEmbedding

Site = Literal["input", "query_key", "score"]

#: Learned tables start as small noise, as in BERT and T5.
_DEVIATION = 0.02
#: KERPLE's r1 and r2 start at random, and no nearer to 0 than this, as in its authors' code.
_LEAST = 0.01


class Encoding(nn.Module):
    """What every encoding can be asked. This one does nothing ("none")."""

    sites: frozenset[Site] = frozenset()

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        """x [.., tokens, model_dim] with the positions of its tokens in it."""
        return x

    def turn(
        self,
        queries: Sequence[Tensor],
        keys: Sequence[Tensor],
        positions: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        key_positions: tuple[Tensor | None, Tensor | None] | None = None,
    ) -> list[Tensor]:
        """Queries, then keys, [batch, tokens, heads, head_dim], turned. Where keys stand elsewhere
        than queries, key_positions has their positions (or None) and cu_seqlens (or None)."""
        return [*queries, *keys]

    def bias(
        self,
        queries: int,
        keys: int,
        *,
        like: Tensor,
        first: int = 0,
        query_positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor | None:
        """[heads, queries, keys] on the device of `like`, with a batch in front where positions
        ([tokens] or [batch, tokens]) have one. Without positions queries stand from `first` on and
        keys from 0."""
        return None

    @property
    def softmax_scale(self) -> float:
        """What scores are multiplied by on top of 1/sqrt(head_dim)."""
        return 1.0


class LearnedPositions(Encoding):
    """x_i + weight[i]: one learned vector a position (Gehring et al. 2017, BERT)."""

    sites = frozenset(["input"])

    def __init__(self, max_positions: int, model_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, model_dim))
        nn.init.normal_(self.weight, std=_DEVIATION)

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        if positions is not None:
            return x + nn.functional.embedding(positions, self.weight).to(x.dtype)
        end = first + x.shape[-2]
        if end > self.weight.shape[0]:
            raise ValueError(
                f"[Learned] positions must be below {self.weight.shape[0]}, got {end - 1}"
            )
        return x + self.weight[first:end].to(x.dtype)


class Sinusoidal(Encoding):
    """x + PE: PE(p, 2i) = sin(p / 10000^(2i/dim)), PE(p, 2i+1) = cos(..) (Vaswani et al. 2017)."""

    sites = frozenset(["input"])

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        result: Tensor = ops.add_sinusoids(x, positions, first)
        return result


class T5Bias(Encoding):
    """weight[bucket(i - j), head] (Raffel et al. 2020). T5 itself does not scale its scores:
    Attention(scale=1.0)."""

    sites = frozenset(["score"])

    def __init__(
        self, heads: int, *, buckets: int = 32, max_distance: int = 128, causal: bool = False
    ) -> None:
        super().__init__()
        self.causal, self.max_distance = causal, max_distance
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=_DEVIATION)

    def bias(self, queries: int, keys: int, *, like: Tensor, **where: Any) -> Tensor | None:
        result: Tensor = ops.t5_bias(
            self.weight, queries, keys, **where, causal=self.causal, max_distance=self.max_distance
        )
        return result


class Alibi(Encoding):
    """-slope_h |i - j|, with the paper's slopes (Press et al. 2022)."""

    sites = frozenset(["score"])

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, queries: int, keys: int, *, like: Tensor, **where: Any) -> Tensor | None:
        result: Tensor = ops.alibi_bias(ops.alibi_slopes(like, self.heads), queries, keys, **where)
        return result


class Kerple(Encoding):
    """-r1 log(1 + r2 |i - j|), or -r1 |i - j|^r2 with r2 in (0, 2) (Chi et al. 2022).

    Parameters hold the logarithms of r1 and r2, and for "power" the logit of r2 / 2: any value of
    theirs is a kernel."""

    sites = frozenset(["score"])

    def __init__(self, heads: int, kind: Literal["log", "power"] = "log") -> None:
        super().__init__()
        if kind not in ("log", "power"):
            raise ValueError(f"[Kerple] kind must be log or power, got {kind!r}")
        self.kind = kind
        most = 1.0 if kind == "power" else 2.0
        self.log_r1 = nn.Parameter(torch.empty(heads).uniform_(_LEAST, most).log())
        if kind == "power":
            r2 = torch.empty(heads).uniform_(_LEAST, 2.0 - _LEAST)
            self.logit_r2 = nn.Parameter(torch.logit(r2 / 2.0))
        else:
            self.log_r2 = nn.Parameter(torch.empty(heads).uniform_(_LEAST, 1.0).log())

    def bias(self, queries: int, keys: int, *, like: Tensor, **where: Any) -> Tensor | None:
        power = self.kind == "power"
        r2 = 2.0 * self.logit_r2.sigmoid() if power else self.log_r2.exp()
        result: Tensor = ops.kerple_bias(self.log_r1.exp(), r2, self.kind, queries, keys, **where)
        return result


class DistanceBias(Encoding):
    """b_(i-j): one learned number a distance and head, 0 at first. Distances beyond max_distance
    share the outermost."""

    sites = frozenset(["score"])

    def __init__(self, heads: int, *, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        rows = (1 if causal else 2) * max_distance + 1
        self.table = nn.Parameter(torch.zeros(rows, heads))

    def bias(self, queries: int, keys: int, *, like: Tensor, **where: Any) -> Tensor | None:
        result: Tensor = ops.distance_bias(self.table, queries, keys, **where, causal=self.causal)
        return result


class Rotation(Encoding):
    """RoPE of any rope (Su et al. 2021), and xPos (Sun et al. 2022) where it grows: queries grow,
    keys shrink."""

    sites = frozenset(["query_key"])

    def __init__(self, rope: Any, *, learn: Learn | None = None, one_axis: str = "refused") -> None:
        super().__init__()
        self.rotation = RotaryEmbedding(rope, learn=learn, one_axis=one_axis)
        self._softmax_scale = self.rotation.softmax_scale

    @property
    def softmax_scale(self) -> float:
        return self._softmax_scale

    def turn(
        self,
        queries: Sequence[Tensor],
        keys: Sequence[Tensor],
        positions: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        key_positions: tuple[Tensor | None, Tensor | None] | None = None,
    ) -> list[Tensor]:
        turn, rope, key_rope = self.rotation._turn, self.rotation.rope, self.rotation.key_rope
        where = (positions, cu_seqlens, first)
        if key_positions is None and rope == key_rope:
            return list(turn("rotate", rope, (*queries, *keys), *where))
        keys_at = where if key_positions is None else (*key_positions, 0)
        return [
            *turn("rotate", rope, tuple(queries), *where),
            *turn("rotate", key_rope, tuple(keys), *keys_at),
        ]


class Hybrid(Encoding):
    """Several, one after the other; their biases add up."""

    def __init__(self, *parts: Encoding) -> None:
        super().__init__()
        for i, part in enumerate(parts):
            self.add_module(str(i), part)
        self.sites = frozenset().union(*(part.sites for part in parts))

    @property
    def parts(self) -> list[Encoding]:
        return [part for part in self.children() if isinstance(part, Encoding)]

    @property
    def softmax_scale(self) -> float:
        scale = 1.0
        for part in self.parts:
            scale *= part.softmax_scale
        return scale

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        for part in self.parts:
            x = part.embed(x, positions, first=first)
        return x

    def turn(
        self, queries: Sequence[Tensor], keys: Sequence[Tensor], *args: Any, **where: Any
    ) -> list[Tensor]:
        count = len(queries)
        for part in self.parts:
            if "query_key" in part.sites:
                turned = part.turn(queries, keys, *args, **where)
                queries, keys = turned[:count], turned[count:]
        return [*queries, *keys]

    def bias(self, queries: int, keys: int, *, like: Tensor, **where: Any) -> Tensor | None:
        total: Tensor | None = None
        for part in self.parts:
            one = part.bias(queries, keys, like=like, **where)
            if one is not None:
                total = one if total is None else total + one
        return total


def make_encoding(
    name: str,
    *,
    model_dim: int = 0,
    max_positions: int = 512,
    heads: int = 0,
    buckets: int = 32,
    max_distance: int = 128,
    causal: bool = False,
    rope: Any = None,
    learn: Learn | None = None,
) -> Encoding:
    """An encoding by its name: none, learned (model_dim, max_positions), sinusoidal, t5 (heads,
    buckets, max_distance, causal), alibi (heads), kerple_log, kerple_power (heads), distance
    (heads, max_distance, causal), rope, xpos (rope, learn); or several: "rope+alibi".

    causal: keys that follow are never seen, and t5 and distance have no parameters for them."""

    def positive(value: int, what: str) -> int:
        if value <= 0:
            raise ValueError(f"[make_encoding] {what} must be positive for {name}, got {value}")
        return value

    def one(part: str) -> Encoding:
        if part in ("rope", "xpos"):
            if rope is None:
                raise ValueError(f"[make_encoding] {part} wants a rope, got None")
            made = Rotation(rope, learn=learn)
            if part == "xpos" and made.rotation.rope == made.rotation.key_rope:
                raise ValueError(
                    f"[make_encoding] xpos wants a rope that grows, got {made.rotation.rope}"
                )
            return made
        if part == "learned":
            return LearnedPositions(
                positive(max_positions, "max_positions"), positive(model_dim, "model_dim")
            )
        if part in makers:
            return makers[part]()
        raise ValueError(
            f"[make_encoding] name must be of {['rope', 'xpos', 'learned', *makers]}, "
            f"or several with + between them, got {part!r}"
        )

    makers: dict[str, Callable[[], Encoding]] = {
        "none": Encoding,
        "sinusoidal": Sinusoidal,
        "t5": lambda: T5Bias(
            positive(heads, "heads"), buckets=buckets, max_distance=max_distance, causal=causal
        ),
        "alibi": lambda: Alibi(positive(heads, "heads")),
        "kerple_log": lambda: Kerple(positive(heads, "heads"), "log"),
        "kerple_power": lambda: Kerple(positive(heads, "heads"), "power"),
        "distance": lambda: DistanceBias(
            positive(heads, "heads"),
            max_distance=positive(max_distance, "max_distance"),
            causal=causal,
        ),
    }
    parts = [one(part) for part in name.split("+")]
    return parts[0] if len(parts) == 1 else Hybrid(*parts)
