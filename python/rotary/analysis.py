# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Effects of a rotation on attention scores; rotary.plot draws them."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .model import ModelLike, ModelRope
from .rope import Frequencies, Rope

#: A rope, its frequencies, or a model that has one.
RopeLike = Union[Rope, Frequencies, ModelRope, ModelLike]


def frequencies_of(rope: RopeLike) -> Frequencies:
    """The frequencies of a rope, however it is given."""
    if isinstance(rope, _core.Frequencies):
        return rope
    if isinstance(rope, ModelRope):
        return rope.make_frequencies()
    return (rope if isinstance(rope, Rope) else Rope.from_pretrained(rope)).frequencies


def wavelengths(rope: RopeLike) -> NDArray[np.float64]:
    """[pairs]: positions for one full turn; infinite for pairs that do not rotate."""
    speed = np.linalg.norm(frequencies_of(rope).values, axis=1)
    with np.errstate(divide="ignore"):
        lengths: NDArray[np.float64] = 2 * np.pi / speed
    return lengths


def phases(rope: RopeLike, positions: ArrayLike) -> NDArray[np.float64]:
    """[tokens, pairs]: angles in radians, not reduced, for positions [tokens] or [axes, tokens]."""
    x = np.atleast_2d(np.asarray(positions, np.float64))
    values = frequencies_of(rope).values
    if x.shape[0] != values.shape[1]:
        raise ValueError(f"[phases] positions must have {values.shape[1]} axes, got {x.shape[0]}")
    angles: NDArray[np.float64] = x.T @ values.T
    return angles


def decay(rope: RopeLike, distances: ArrayLike = range(257)) -> NDArray[np.float64]:
    """The bound on how scores fall with distance, from the RoFormer article (section 3.4.3):

        f(m) = mean over j = 1 .. d/2 of |sum over i < j of e^(i m f_i)|

    By Abel's summation a score at distance m is at most f(m) times the largest step between
    neighbouring pairs of q*k. For ropes of one axis, pairs in the order of the ladder."""
    sums = np.cumsum(np.exp(1j * phases(rope, distances)), axis=1)
    curve: NDArray[np.float64] = np.abs(sums).mean(axis=1)
    return curve


def relative_scores(
    rope: RopeLike, distances: ArrayLike, weights: Any = None
) -> NDArray[np.float64]:
    """Score of a query and a key that are equal, by their distance: sum_i w_i cos(m f_i), w_i the
    weight of pair i (default: all equal, adding up to 1). distances [n] or [axes, n]."""
    angles = phases(rope, distances)
    w = np.full(angles.shape[1], 1 / angles.shape[1]) if weights is None else np.asarray(weights)
    scores: NDArray[np.float64] = np.cos(angles) @ w
    return scores
