# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of rotations. Needs matplotlib: pip install "rotary[plot]".

    rotary.plot.wavelengths("Qwen2.5-7B/")      # how long each pair takes for a turn
    rotary.plot.phases(rope)                    # which pair is where at which position
    rotary.plot.decay(rope)                     # how scores fall with distance
    rotary.plot.scores(rope)                    # scores of equal queries and keys, as a map
    rotary.plot.plane(rope, method="tsne")      # positions as points of the plane
    rotary.plot.compare(a, b)                   # two ropes, pair by pair

Each takes a rope, its frequencies, or a model, draws into `ax` or a new figure, and returns the
axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import analysis
from .analysis import RopeLike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_CONSTANT = 1e18  # wavelength from which on a pair counts as not rotating


def _axes(ax: Axes | None, size: tuple[float, float] = (6.4, 3.6)) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('rotary.plot needs matplotlib: pip install "rotary[plot]"') from error
    made: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return made


def _finite_wavelengths(rope: RopeLike) -> Any:
    """Wavelengths, NaN for pairs that do not rotate."""
    lengths = analysis.wavelengths(rope)
    return np.where(lengths < _CONSTANT, lengths, np.nan)


def wavelengths(
    rope: RopeLike, *, context: int = 0, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Positions for one turn of each pair, on a logarithmic scale; `context` draws a line: pairs
    above it never complete a turn within so many positions."""
    ax = _axes(ax)
    lengths = _finite_wavelengths(rope)
    ax.plot(np.arange(len(lengths)), lengths, ".-", label=label)
    ax.set(yscale="log", xlabel="pair", ylabel="positions for one turn")
    if context > 0:
        ax.axhline(context, color="tab:red", linestyle="--", label=f"{context} positions")
    if label is not None or context > 0:
        ax.legend()
    return ax


def phases(rope: RopeLike, positions: int = 256, *, ax: Axes | None = None) -> Axes:
    """The map of encodings: cos of the angle of each pair at each position. For several axes: the
    same position on all."""
    ax = _axes(ax)
    axes = analysis.frequencies_of(rope).axes
    angles = analysis.phases(rope, np.tile(np.arange(positions), (axes, 1)))
    image = ax.imshow(
        np.cos(angles).T, aspect="auto", cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest"
    )
    ax.set(xlabel="position", ylabel="pair")
    ax.figure.colorbar(image, ax=ax, label="cos of the angle")
    return ax


def decay(
    rope: RopeLike, distances: int = 256, *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """The long-range decay of the RoFormer article: rotary.decay() for distances 0, 1, ..."""
    ax = _axes(ax)
    ax.plot(analysis.decay(rope, np.arange(distances + 1)), label=label)
    ax.set(xlabel="distance", ylabel="bound on the score")
    if label is not None:
        ax.legend()
    return ax


def scores(rope: RopeLike, size: int = 128, *, ax: Axes | None = None) -> Axes:
    """Scores of equal queries and keys, 1 at distance 0. One axis: query position
    against key position. Two or more: the offset on the last two axes around the centre."""
    ax = _axes(ax, (4.8, 4.0))
    axes = analysis.frequencies_of(rope).axes
    if axes == 1:
        line = analysis.relative_scores(rope, np.arange(1 - size, size))
        query, key = np.mgrid[:size, :size]
        values = line[query - key + size - 1]
        extent = (-0.5, size - 0.5, size - 0.5, -0.5)
        ax.set(xlabel="key position", ylabel="query position")
    else:
        half = size // 2
        rows, columns = np.mgrid[-half : half + 1, -half : half + 1]
        offsets = np.zeros((axes, rows.size))
        offsets[-2], offsets[-1] = rows.ravel(), columns.ravel()
        values = analysis.relative_scores(rope, offsets).reshape(rows.shape)
        extent = (-half - 0.5, half + 0.5, half + 0.5, -half - 0.5)
        ax.set(xlabel="columns apart", ylabel="rows apart")
    image = ax.imshow(values, extent=extent, cmap="viridis", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="score")
    return ax


def plane(
    rope: RopeLike,
    positions: int = 256,
    *,
    method: Literal["pca", "tsne"] = "pca",
    ax: Axes | None = None,
) -> Axes:
    """The vectors of positions 0, 1, ... as points of the plane: rotary.position_plane()."""
    ax = _axes(ax, (4.8, 4.0))
    points = analysis.position_plane(rope, np.arange(positions), method=method)
    image = ax.scatter(points[:, 0], points[:, 1], c=np.arange(positions), s=8)
    ax.set(xticks=[], yticks=[], title="t-SNE" if method == "tsne" else "principal components")
    ax.figure.colorbar(image, ax=ax, label="position")
    return ax


def compare(
    a: RopeLike,
    b: RopeLike,
    *,
    labels: Sequence[str] = ("a", "b"),
    context: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """The wavelengths of two ropes, and by how much the second slows each pair down."""
    ax = wavelengths(a, label=labels[0], ax=_axes(ax))
    wavelengths(b, label=labels[1], context=context, ax=ax)
    first, second = _finite_wavelengths(a), _finite_wavelengths(b)
    if len(first) == len(second):
        ratio = ax.twinx()
        ratio.plot(second / first, color="tab:gray", linestyle=":")
        ratio.set_ylabel(f"{labels[1]} over {labels[0]}", color="tab:gray")
    return ax
