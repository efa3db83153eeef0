# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The position of every token: the `positions` of every call.

    None                      token t of every batch row is at t
    4096                      at 4096 + t
    array [tokens]            one id per token; also [axes, tokens] and [axes, batch, tokens]
    rotary.ranges(first)      batch row b from first[b] on: decoding sequences of different length
    rotary.packed(cu_seqlens) sequences end to end, each from 0

Ids are int32, int64, float32 or float64 and may be negative. Arrays are not copied (but for
cu_seqlens in host memory): they must be on the device of the tensors. Lists and ranges of Python
become NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from . import _core
from ._arrays import export, library_of

#: Anything that a call takes as positions.
PositionsLike = Union[None, int, Sequence[Any], _core.Positions, Any]


def _exported(values: Any, stream: int | None) -> Any:
    if isinstance(values, (list, tuple, range)):
        values = np.asarray(values)
        if values.size == 0:
            values = values.astype(np.int64)
    return export(values, stream)


def _boundaries(values: Any, stream: int | None) -> Any:
    """Of host arrays a copy: what is checked here is what later calls read, whatever becomes of the
    array meanwhile. Boundaries in device memory are not checked."""
    device = getattr(values, "__dlpack_device__", None)
    if isinstance(values, np.ndarray):
        library_of(values)  # refuses masked arrays
        values = np.array(values)
    elif device is not None and device()[0] == 1:  # kDLCPU
        values = np.array(np.from_dlpack(values))
    return _exported(values, stream)


def positions(at: PositionsLike = None, *, stream: int | None = None) -> _core.Positions:
    """Positions for the calls of a rope; reusable."""
    if isinstance(at, _core.Positions):
        return at
    if at is None:
        return _core.positions_range(0)
    if isinstance(at, (int, np.integer)):
        return _core.positions_range(int(at))
    return _core.positions_ids(_exported(at, stream))


def distances(delta: PositionsLike, *, stream: int | None = None) -> _core.Positions:
    """As positions(), but a number is one distance for every token: for Rope.shift."""
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
    at positions first[s], first[s]+1, ... (first None: from 0)."""
    begin = None if first is None else _exported(first, stream)
    return _core.positions_packed(_boundaries(cu_seqlens, stream), begin)


def packed_at(cu_seqlens: Any, position: Any, *, stream: int | None = None) -> _core.Positions:
    """Packed sequences whose tokens all are at position[s]: distances for Rope.shift."""
    return _core.positions_packed_at(_boundaries(cu_seqlens, stream), _exported(position, stream))
