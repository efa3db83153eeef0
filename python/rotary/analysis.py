# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Effects of a rotation on attention scores; rotary.plot draws them."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Literal, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from .model import ModelLike, ModelRope
from .recipe import Recipe
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
    return np.asarray(_core.wavelengths(frequencies_of(rope)))


def turns(rope: RopeLike, context: int) -> NDArray[np.float64]:
    """[pairs]: turns within so many positions."""
    return np.asarray(_core.turns(frequencies_of(rope), context))


def phases(rope: RopeLike, positions: ArrayLike) -> NDArray[np.float64]:
    """[tokens, pairs]: angles in radians, not reduced, for positions [tokens] or [axes, tokens]."""
    values = frequencies_of(rope).values
    angles: NDArray[np.float64] = _offsets("phases", values.shape[1], positions) @ values.T
    return angles


def _offsets(name: str, axes: int, positions: ArrayLike) -> NDArray[np.float64]:
    """[tokens, axes] of positions [tokens] or [axes, tokens]."""
    x = np.atleast_2d(np.asarray(positions, np.float64))
    if x.shape[0] != axes:
        raise ValueError(f"[{name}] positions must have {axes} axes, got {x.shape[0]}")
    return np.ascontiguousarray(x.T)


def decay(rope: RopeLike, distances: ArrayLike = range(257)) -> NDArray[np.float64]:
    """The bound on how scores fall with distance, from the RoFormer article (section 3.4.3):

        f(m) = mean over j = 1 .. d/2 of |sum over i < j of e^(i m f_i)|

    By Abel's summation a score at distance m is at most d/2 f(m) times the largest step between
    neighbouring pairs of q*k. It is not monotone. xPos has its growth as a factor on each term.
    distances [n] or [axes, n], pairs in the order of the ladder."""
    f = frequencies_of(rope)
    return np.asarray(_core.decay(f, _offsets("decay", f.axes, distances)))


def relative_scores(
    rope: RopeLike, distances: ArrayLike, weights: Any = None
) -> NDArray[np.float64]:
    """Score of a query and a key that are equal, by their distance: sum_i w_i cos(m f_i), w_i the
    weight of pair i (default: all equal, adding up to 1); with xPos times its growth.
    distances [n] or [axes, n]."""
    f = frequencies_of(rope)
    w = None if weights is None else np.ascontiguousarray(weights, np.float64)
    return np.asarray(_core.relative_scores(f, _offsets("relative_scores", f.axes, distances), w))


def position_plane(
    rope: RopeLike,
    positions: ArrayLike = range(256),
    *,
    method: Literal["pca", "tsne"] = "pca",
    seed: int = 0,
) -> NDArray[np.float64]:
    """[n, 2]: the vectors (cos, sin) of positions in the plane, for a rope with one axis. "pca":
    projected on their two principal components. "tsne": t-SNE, which keeps neighbours together and
    no distances; it needs scikit-learn (pip install "rotary[tsne]") and at least 3 positions."""
    at = np.ascontiguousarray(positions, np.float64)
    if method == "pca":
        return np.asarray(_core.position_plane(frequencies_of(rope), at)).reshape(-1, 2)
    if method != "tsne":
        raise ValueError(f"[position_plane] method must be pca or tsne, got {method!r}")
    if at.size < 3:
        raise ValueError(f"[position_plane] t-SNE needs at least 3 positions, got {at.size}")
    try:
        manifold: Any = importlib.import_module("sklearn.manifold")
    except ImportError as error:
        raise ImportError('t-SNE needs scikit-learn: pip install "rotary[tsne]"') from error
    angles = phases(rope, at)
    vectors = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    perplexity = min(30.0, (at.size - 1) / 3)  # scikit-learn's default, less for few positions
    tsne = manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed)
    return np.asarray(tsne.fit_transform(vectors), np.float64)


def critical_dim(rope: RopeLike, trained_context: int) -> int:
    """Dims of pairs that make a turn within the trained context (arXiv 2310.05209)."""
    return _core.critical_dim(frequencies_of(rope), trained_context)


def negative_distance(rope: RopeLike, context: int) -> int | None:
    """The first distance within the context at which the sum of cosines over the pairs is negative;
    None if the base serves the context (arXiv 2405.14591)."""
    return _core.negative_distance(frequencies_of(rope), context)


@dataclasses.dataclass(frozen=True)
class BaseBound:
    """No base in [1, lower] serves the context, `base` does; see smallest_base()."""

    base: float
    lower: float
    distance: int
    interval_proof: bool
    undecided: list[float]


def smallest_base(recipe: Recipe, context: int) -> BaseBound:
    """The smallest base whose sum of cosines is not negative at any distance within the context,
    proved: every base below fails, just below at `distance`. Without `interval_proof` (recipes
    whose factors depend on the base) every base 1.01^k below fails. Larger bases may fail again."""
    return BaseBound(**_core.smallest_base(recipe, context))


def angle_errors(
    rope: RopeLike, positions: ArrayLike, method: str = "float32"
) -> NDArray[np.float64]:
    """[n, 2]: by position, the largest error over the pairs of the angle in radians, and of cos or
    sin. method: "float32", "bfloat16_table", "bfloat16_angle" or "fast_math"."""
    at = [int(p) for p in np.atleast_1d(np.asarray(positions))]
    rows = _core.angle_errors(frequencies_of(rope), method, at)
    return np.asarray([row[:2] for row in rows], np.float64).reshape(-1, 2)
