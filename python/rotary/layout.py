# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Layout of the rotated pairs in a head, precision and cache of a rope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Which two elements of a head form one rotated pair (pair numbers; head_dim 8, rotary_dim 6):
#:   "interleaved"  [0 0 1 1 2 2 - -]   RoFormer, GPT-J, Llama as Meta stores it
#:   "half"         [0 1 2 0 1 2 - -]   GPT-NeoX, Llama as stored by Hugging Face
Pairing = Literal["interleaved", "half"]

#: "exact": angles without loss up to position 2^40. "reference": what transformers computes, in
#: float32, whatever the error.
Precision = Literal["exact", "reference"]


@dataclass(frozen=True)
class HeadLayout:
    """The layout of a head; elements outside the rotary slice are copied unchanged."""

    head_dim: int
    rotary_offset: int = 0
    #: Required by Rope. There is no default: a wrong guess gives fluent nonsense, never an error.
    pairing: Pairing | None = None
    #: The layout written. None: the layout read.
    output_pairing: Pairing | None = None


@dataclass(frozen=True)
class Cache:
    """A table of cos and sin for positions 0 .. positions-1, on the CPU. It changes no bit of a
    result and limits no position.

    policy: "none", computed in every call; "all", with the rope; "hybrid", each part by the first
    call that needs it.
    """

    policy: Literal["none", "all", "hybrid"] = "none"
    positions: int = 0
