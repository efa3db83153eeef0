# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Position encodings of attention: RoPE and its alternatives behind one interface.

    encoding = rotary.torch.make_encoding("rope+alibi", heads=8, rope=rope)
    x = encoding.embed(x)                               # encodings of the input
    attention = rotary.torch.Attention(512, 8, encoding=encoding)

An encoding acts on the input (added to token embeddings), on queries and keys (rotated), on the
score (a bias), or on several of these, and leaves the rest unchanged. Each follows its paper;
docs/attention.md has the formulas. The C++ modules of rotary/transformer/encodings.h have the same
parameters by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ._library import ops
from .module import Learned as Learn
from .module import RotaryEmbedding

Target = Literal["input", "query_key", "score", "content"]

#: Standard deviation of initial embeddings, as in BERT and T5.
_INIT_STD = 0.02
#: KERPLE's r1 and r2 are initialised uniformly, at least this large, as in its authors' code.
_MIN_R = 0.01


class Encoding(nn.Module):
    """The interface of every encoding. This one does nothing ("none")."""

    targets: frozenset[Target] = frozenset()

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        """x [.., tokens, model_dim] plus the embeddings of its positions."""
        return x

    def rotate(
        self,
        queries: Sequence[Tensor],
        keys: Sequence[Tensor],
        positions: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        key_positions: tuple[Tensor | None, Tensor | None] | None = None,
    ) -> list[Tensor]:
        """Queries, then keys, [batch, tokens, heads, head_dim], rotated. key_positions are the
        positions (or None) and cu_seqlens (or None) of keys that differ from the queries'."""
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
        ([tokens] or [batch, tokens]) have one. By default queries have the positions from `first`
        on, keys those from 0."""
        return None

    def content_bias(self, q: Tensor, k: Tensor, first: int = 0) -> Tensor | None:
        """Scores beside q k^T that depend on queries or keys, [batch, heads, tokens, head_dim],
        before both are scaled: [batch, heads, queries, keys]. Distances are those of token
        indices; query t has the index of key first + t."""
        return None

    def value_vectors(self, like: Tensor) -> Tensor | None:
        """What attend() takes under this name, on the device of `like`."""
        return None

    @property
    def softmax_scale(self) -> float:
        """Factor of scores besides 1/sqrt(head_dim)."""
        return 1.0


class LearnedPositions(Encoding):
    """x_i + weight[i]: one learned vector per position (Gehring et al. 2017, BERT)."""

    targets = frozenset(["input"])

    def __init__(self, max_positions: int, model_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, model_dim))
        nn.init.normal_(self.weight, std=_INIT_STD)

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

    targets = frozenset(["input"])

    def embed(self, x: Tensor, positions: Tensor | None = None, *, first: int = 0) -> Tensor:
        result: Tensor = ops.add_sinusoids(x, positions, first)
        return result


class T5Bias(Encoding):
    """weight[bucket(i - j), head] (Raffel et al. 2020). T5 itself does not scale its scores:
    Attention(scale=1.0)."""

    targets = frozenset(["score"])

    def __init__(
        self, heads: int, *, buckets: int = 32, max_distance: int = 128, causal: bool = False
    ) -> None:
        super().__init__()
        self.causal, self.max_distance = causal, max_distance
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=_INIT_STD)

    def bias(self, queries: int, keys: int, *, like: Tensor, **positions: Any) -> Tensor | None:
        result: Tensor = ops.t5_bias(
            self.weight,
            queries,
            keys,
            **positions,
            causal=self.causal,
            max_distance=self.max_distance,
        )
        return result


class Alibi(Encoding):
    """-slope_h |i - j|, with the paper's slopes (Press et al. 2022)."""

    targets = frozenset(["score"])

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, queries: int, keys: int, *, like: Tensor, **positions: Any) -> Tensor | None:
        result: Tensor = ops.alibi_bias(
            ops.alibi_slopes(like, self.heads), queries, keys, **positions
        )
        return result


class Kerple(Encoding):
    """-r1 log(1 + r2 |i - j|), or -r1 |i - j|^r2 with r2 in (0, 2) (Chi et al. 2022).

    Parameters are the logarithms of r1 and r2, and for "power" the logit of r2 / 2: every value
    is a valid kernel."""

    targets = frozenset(["score"])

    def __init__(self, heads: int, kind: Literal["log", "power"] = "log") -> None:
        super().__init__()
        if kind not in ("log", "power"):
            raise ValueError(f"[Kerple] kind must be log or power, got {kind!r}")
        self.kind = kind
        max_r1 = 1.0 if kind == "power" else 2.0
        self.log_r1 = nn.Parameter(torch.empty(heads).uniform_(_MIN_R, max_r1).log())
        if kind == "power":
            r2 = torch.empty(heads).uniform_(_MIN_R, 2.0 - _MIN_R)
            self.logit_r2 = nn.Parameter(torch.logit(r2 / 2.0))
        else:
            self.log_r2 = nn.Parameter(torch.empty(heads).uniform_(_MIN_R, 1.0).log())

    def bias(self, queries: int, keys: int, *, like: Tensor, **positions: Any) -> Tensor | None:
        power = self.kind == "power"
        r2 = 2.0 * self.logit_r2.sigmoid() if power else self.log_r2.exp()
        result: Tensor = ops.kerple_bias(
            self.log_r1.exp(), r2, self.kind, queries, keys, **positions
        )
        return result


class DistanceBias(Encoding):
    """b_(i-j): one learned bias per distance and head, initialised to 0. Distances are clamped to
    max_distance."""

    targets = frozenset(["score"])

    def __init__(self, heads: int, *, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        rows = (1 if causal else 2) * max_distance + 1
        self.table = nn.Parameter(torch.zeros(rows, heads))

    def bias(self, queries: int, keys: int, *, like: Tensor, **positions: Any) -> Tensor | None:
        result: Tensor = ops.distance_bias(
            self.table, queries, keys, **positions, causal=self.causal
        )
        return result


class Shaw(Encoding):
    """Keys and values get a vector of the clipped distance j - i (Shaw et al. 2018): learned, or
    with learn=False NEZHA's sinusoids (Wei et al. 2019)."""

    targets = frozenset(["content"])

    def __init__(
        self, head_dim: int, *, max_distance: int = 128, causal: bool = False, learn: bool = True
    ) -> None:
        super().__init__()
        self._later = max_distance if causal else 0
        self._shape = (2 * max_distance + 1 - self._later, head_dim)
        self.keys: nn.Parameter | None = None
        self.values: nn.Parameter | None = None
        if learn:
            self.keys = nn.Parameter(torch.randn(self._shape) * _INIT_STD)
            self.values = nn.Parameter(torch.randn(self._shape) * _INIT_STD)

    def _table(self, learned: Tensor | None, like: Tensor) -> Tensor:
        if learned is None:
            zeros = torch.zeros(self._shape, dtype=torch.float64, device=like.device)
            learned = ops.add_sinusoids(zeros)
        return nn.functional.pad(learned, (0, 0, 0, self._later)) if self._later else learned

    def content_bias(self, q: Tensor, k: Tensor, first: int = 0) -> Tensor | None:
        result: Tensor = ops.shaw_bias(q, self._table(self.keys, q), k.shape[2], first)
        return result

    def value_vectors(self, like: Tensor) -> Tensor | None:
        return self._table(self.values, like)


class TransformerXL(Encoding):
    """(q_i + v) . W R_(i-j) + u . k_j beside q_i . k_j, R sinusoids and W position.weight (Dai et
    al. 2019, 3.3)."""

    targets = frozenset(["content"])

    def __init__(self, model_dim: int, heads: int, *, head_dim: int | None = None) -> None:
        super().__init__()
        head_dim = model_dim // heads if head_dim is None else head_dim
        self.position = nn.Linear(model_dim, heads * head_dim, bias=False)
        nn.init.normal_(self.position.weight, std=_INIT_STD)
        self.u = nn.Parameter(torch.randn(heads, head_dim) * _INIT_STD)
        self.v = nn.Parameter(torch.randn(heads, head_dim) * _INIT_STD)

    def content_bias(self, q: Tensor, k: Tensor, first: int = 0) -> Tensor | None:
        result: Tensor = ops.transformer_xl_bias(q, k, self.position.weight, self.u, self.v, first)
        return result


class Rotation(Encoding):
    """RoPE of any rope (Su et al. 2021), and xPos (Sun et al. 2022) where it grows: queries grow,
    keys decay."""

    targets = frozenset(["query_key"])

    def __init__(
        self,
        rope: Any,
        *,
        learn: Learn | None = None,
        heads: int = 0,
        one_axis: str = "refused",
    ) -> None:
        super().__init__()
        self.rotation = RotaryEmbedding(rope, learn=learn, heads=heads, one_axis=one_axis)
        self._softmax_scale = self.rotation.softmax_scale

    @property
    def softmax_scale(self) -> float:
        return self._softmax_scale

    def rotate(
        self,
        queries: Sequence[Tensor],
        keys: Sequence[Tensor],
        positions: Tensor | None = None,
        *,
        cu_seqlens: Tensor | None = None,
        first: int = 0,
        key_positions: tuple[Tensor | None, Tensor | None] | None = None,
    ) -> list[Tensor]:
        apply, rope, key_rope = self.rotation._apply_op, self.rotation.rope, self.rotation.key_rope
        of_queries = (positions, cu_seqlens, first)
        if key_positions is None and rope == key_rope:
            return list(apply("rotate", rope, (*queries, *keys), *of_queries))
        of_keys = of_queries if key_positions is None else (*key_positions, 0)
        return [
            *apply("rotate", rope, tuple(queries), *of_queries),
            *apply("rotate", key_rope, tuple(keys), *of_keys),
        ]


class Hybrid(Encoding):
    """Several encodings in sequence; their biases are added."""

    def __init__(self, *parts: Encoding) -> None:
        super().__init__()
        for i, part in enumerate(parts):
            self.add_module(str(i), part)
        self.targets = frozenset().union(*(part.targets for part in parts))

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

    def rotate(
        self, queries: Sequence[Tensor], keys: Sequence[Tensor], *args: Any, **positions: Any
    ) -> list[Tensor]:
        count = len(queries)
        for part in self.parts:
            if "query_key" in part.targets:
                rotated = part.rotate(queries, keys, *args, **positions)
                queries, keys = rotated[:count], rotated[count:]
        return [*queries, *keys]

    def bias(self, queries: int, keys: int, *, like: Tensor, **positions: Any) -> Tensor | None:
        total: Tensor | None = None
        for part in self.parts:
            one = part.bias(queries, keys, like=like, **positions)
            if one is not None:
                total = one if total is None else total + one
        return total

    def content_bias(self, q: Tensor, k: Tensor, first: int = 0) -> Tensor | None:
        biases = (part.content_bias(q, k, first) for part in self.parts)
        return next((bias for bias in biases if bias is not None), None)

    def value_vectors(self, like: Tensor) -> Tensor | None:
        tables = (part.value_vectors(like) for part in self.parts)
        return next((table for table in tables if table is not None), None)


def make_encoding(
    name: str,
    *,
    model_dim: int = 0,
    max_positions: int = 512,
    heads: int = 0,
    head_dim: int = 0,
    buckets: int = 32,
    max_distance: int = 128,
    causal: bool = False,
    rope: Any = None,
    learn: Learn | None = None,
) -> Encoding:
    """An encoding by its name: none, learned (model_dim, max_positions), sinusoidal, t5 (heads,
    buckets, max_distance, causal), alibi (heads), kerple_log, kerple_power (heads), distance
    (heads, max_distance, causal), shaw, nezha (head_dim, max_distance, causal), transformer_xl
    (model_dim, heads, head_dim), rope, xpos (rope, learn, heads); or several: "rope+alibi".

    head_dim: 0 is model_dim / heads.
    causal: t5, distance, shaw and nezha have no parameters for later keys, which are never
    attended to."""

    def positive(value: int, what: str) -> int:
        if value <= 0:
            raise ValueError(f"[make_encoding] {what} must be positive for {name}, got {value}")
        return value

    def one(part: str) -> Encoding:
        if part in ("rope", "xpos"):
            if rope is None:
                raise ValueError(f"[make_encoding] rope must be given for {part}, got None")
            made = Rotation(rope, learn=learn, heads=heads)
            if part == "xpos" and made.rotation.rope == made.rotation.key_rope:
                raise ValueError(
                    f"[make_encoding] rope must have growth for xpos, got {made.rotation.rope}"
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

    def size_of_head(part: str) -> int:
        if head_dim <= 0 and (model_dim <= 0 or model_dim % positive(heads, "heads")):
            raise ValueError(
                "[make_encoding] head_dim, or a model_dim that heads divide, must be given for "
                f"{part}, got {head_dim} and {model_dim}"
            )
        return head_dim or model_dim // heads

    def shaw(part: str) -> Encoding:
        clip = positive(max_distance, "max_distance")
        return Shaw(size_of_head(part), max_distance=clip, causal=causal, learn=part == "shaw")

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
        "shaw": lambda: shaw("shaw"),
        "nezha": lambda: shaw("nezha"),
        "transformer_xl": lambda: TransformerXL(
            positive(model_dim, "model_dim"),
            positive(heads, "heads"),
            head_dim=size_of_head("transformer_xl"),
        ),
    }
    parts = [one(part) for part in name.split("+")]
    # Vectors of distances belong to queries and keys that do not know where they are.
    num_content = sum("content" in part.targets for part in parts)
    rotates = any("query_key" in part.targets for part in parts)
    if num_content > 1 or (num_content == 1 and rotates):
        raise ValueError(
            "[make_encoding] name must have at most one of shaw, nezha and transformer_xl, and "
            f"neither rope nor xpos with it, got {name!r}"
        )
    return parts[0] if len(parts) == 1 else Hybrid(*parts)
