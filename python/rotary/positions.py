# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Where each token stands: what every call takes as `positions`.

    None                      token t of every batch row is at t
    4096                      at 4096 + t
    array [tokens]            one id a token; also [axes, tokens] and [axes, batch, tokens]
    rotary.ranges(first)      batch row b from first[b] on: decoding sequences of different length
    rotary.packed(cu_seqlens) sequences end to end, each from 0

Ids are int32, int64, float32 or float64 and may be negative. Arrays are not copied: they lie on the
device of the tensors. Lists and ranges of Python become NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from . import _core
from ._arrays import export

#: Anything that a call takes as positions.
PositionsLike = Union[None, int, Sequence[Any], _core.Positions, Any]


def _exported(values: Any, stream: int | None) -> Any:
    if isinstance(values, (list, tuple, range)):
        values = np.asarray(values)
        if values.size == 0:
            values = values.astype(np.int64)
    return export(values, stream)


def positions(at: PositionsLike = None, *, stream: int | None = None) -> _core.Positions:
    """Positions as the calls of a rope understand them; made once, they can be used many times."""
    if isinstance(at, _core.Positions):
        return at
    if at is None:
        return _core.positions_range(0)
    if isinstance(at, (int, np.integer)):
        return _core.positions_range(int(at))
    return _core.positions_ids(_exported(at, stream))


def distances(delta: PositionsLike, *, stream: int | None = None) -> _core.Positions:
    """As positions(), but a number is the same distance for every token: what Rope.shift takes."""
    if isinstance(delta, (int, np.integer)):
        return _core.positions_at(int(delta))
    return positions(delta, stream=stream)


def ranges(first: Any, *, stream: int | None = None) -> _core.Positions:
    """Token t of batch row b is at first[b] + t."""
    return _core.positions_ranges(_exported(first, stream))


def at(position: Any, *, stream: int | None = None) -> _core.Positions:
    """Every token at `position`, or every token of batch row b at position[b]."""
    if isinstance(position, (int, np.integer)):
        return _core.positions_at(int(position))
    return _core.positions_each_at(_exported(position, stream))


def packed(cu_seqlens: Any, first: Any = None, *, stream: int | None = None) -> _core.Positions:
    """Sequences packed end to end: sequence s holds the tokens cu_seqlens[s] .. cu_seqlens[s+1]-1,
    and they stand at first[s], first[s]+1, ... (first None: at 0)."""
    begin = None if first is None else _exported(first, stream)
    return _core.positions_packed(_exported(cu_seqlens, stream), begin)


def packed_at(cu_seqlens: Any, position: Any, *, stream: int | None = None) -> _core.Positions:
    """Packed sequences whose tokens all stand at position[s]: distances for Rope.shift."""
    return _core.positions_packed_at(_exported(cu_seqlens, stream), _exported(position, stream))
