# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What modelling files are known to look like, as data.

Nothing here decides that a function is understood: it says what to try. A function counts as
understood when the kernel gives its results on a probe (probe.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: Functions of a modelling file that rotate.
ROTATES = re.compile(r"apply_.*(rotary|rope)")
#: What rotates inside a method, without a function that could be replaced.
ROTATES_INLINE = re.compile(r"rotate_(half|every_two|pairwise|queries_or_keys|half_\w+)$")
#: Methods that rotate.
ROTATING_METHOD = re.compile(r"_?apply_rotary\w*$")

#: Format of cos and sin: two tensors; one, cos + i sin, of [batch, tokens, pairs] or, for
#: the grid of an image, of [tokens, 1, pairs]; one of sines, then cosines.
TableKind = Literal["cos, sin", "complex", "complex grid", "sin|cos"]


@dataclass(frozen=True)
class Signature:
    """Parameters of a function that rotates."""

    tensors: tuple[str, ...]
    table: tuple[str, ...]
    kind: TableKind = "cos, sin"
    #: Parameters that may be there as well. unsqueeze_dim says where the heads are.
    others: tuple[str, ...] = ("unsqueeze_dim", "position_ids", "kwargs")

    def takes(self, parameters: tuple[str, ...]) -> bool:
        needed = self.tensors + self.table
        return set(needed) <= set(parameters) <= set(needed + self.others)


SIGNATURES = (
    Signature(("q", "k"), ("cos", "sin")),
    Signature(("x",), ("cos", "sin")),
    Signature(("tensor",), ("sin", "cos")),
    Signature(("xq", "xk"), ("freqs_cis",), "complex"),
    Signature(("query", "key"), ("freqs_ci",), "complex grid"),
    Signature(("query_layer", "key_layer", "value_layer"), ("sinusoidal_pos",), "sin|cos"),
)

#: How a row of cos lays out the pairs 0 1 2.
#:   halves   [0 1 2 0 1 2]
#:   doubled  [0 0 1 1 2 2]
#:   single   [0 1 2]
Columns = Literal["halves", "doubled", "single"]
Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True)
class Behaviour:
    """What a function that rotates does."""

    pairing: Pairing
    output: Pairing
    columns: Columns
    #: "backward": by the negative angle (nanochat).
    direction: Literal["forward", "backward"] = "forward"
    #: Which elements of a head rotate where the table is narrower than the head.
    part: Literal["whole", "leading", "trailing"] = "whole"
    #: Which dimension holds the tokens where no unsqueeze_dim says it.
    token_dim: int = -2
    #: Which tokens rotate where the table has fewer rows: "last" leaves those before it (DINOv3).
    tokens: Literal["all", "last"] = "all"

    def pairs(self, columns: int) -> int:
        return columns if self.columns == "single" else columns // 2

    def __str__(self) -> str:
        words: list[str] = [self.pairing]
        if self.output != self.pairing:
            words.append(f"output {self.output}")
        if self.direction == "backward":
            words.append("backward")
        return ", ".join(words)


#: (pairing, output, columns, direction), the most frequent first.
ROTATIONS = (
    ("half", "half", "halves", "forward"),
    ("interleaved", "interleaved", "halves", "forward"),
    ("interleaved", "interleaved", "doubled", "forward"),
    ("interleaved", "half", "halves", "forward"),
    ("interleaved", "interleaved", "single", "forward"),
    ("half", "half", "single", "forward"),
    ("interleaved", "half", "single", "forward"),
    ("half", "half", "halves", "backward"),
    ("interleaved", "interleaved", "doubled", "backward"),
)

#: Attributes that hold the norms of queries and of keys.
NORMS = (
    ("q_norm", "k_norm"),
    ("query_layernorm", "key_layernorm"),
    ("q_layernorm", "k_layernorm"),
    ("query_norm", "key_norm"),
)
#: Attributes of a norm that hold its epsilon.
EPSILONS = ("variance_epsilon", "eps", "epsilon", "norm_eps")


@dataclass(frozen=True)
class Norm:
    """What a norm does, in the words of qk_norm_rope."""

    kind: Literal["rms", "rms_one_plus", "layer"]
    rounding: Literal["tensor", "every_step"]
    eps: float
    has_weight: bool
    has_bias: bool
    scope: Literal["head", "all_heads"] = "head"
    order: Literal["before", "after"] = "before"

    def __str__(self) -> str:
        words: list[str] = [self.kind]
        if self.scope == "all_heads":
            words.append("all heads")
        if self.order == "after":
            words.append("after")
        return ", ".join(words)


#: Shapes of position_ids that rotary modules take: b batch, t tokens, digits axes.
POSITION_SHAPES = ("bt", "t2", "bt2", "3bt", "2bt", "4bt", "t3", "1t")

#: How far results may differ on the probe, in units of the largest element: float32 sums of two
#: products, in one rounding less than the model's own.
TOLERANCE = 1e-6
