# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes: every published way to choose the frequencies, as plain data.

    rotary.Recipe(rotary_dim=128, theta=5e5,
                  scaling=rotary.Llama3(factor=8, original_context=8192))

A recipe is a ladder (rotary_dim, theta), a scaling of that ladder and a map from pairs to axes; the
three combine freely. d = rotary_dim, pairs i = 0 .. d/2-1, f_i = theta^(-2i/d). Names, defaults and
meanings are those of rotary/recipe.h; values are checked by the library when a rope is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Union

from . import _core


def _freeze(instance: object, *names: str) -> None:
    """Turns lists and arrays into tuples, so that recipes can be compared, hashed and pickled."""
    for name in names:
        values = getattr(instance, name)
        plain = values.tolist() if hasattr(values, "tolist") else values
        object.__setattr__(instance, name, tuple(plain))


# ---- Scalings: what happens to the ladder -------------------------------------------------------


@dataclass(frozen=True)
class Plain:
    """f_i unchanged ("default")."""


@dataclass(frozen=True)
class Linear:
    """Position interpolation: f_i / factor."""

    factor: float = 1.0


@dataclass(frozen=True)
class Ntk:
    """Su's NTK-RoPE with a fixed factor, and its mixed form when `mixed_b` is given."""

    factor: float = 1.0
    mixed_b: float | None = None


@dataclass(frozen=True)
class NtkAlpha:
    """NTK-aware change of base: theta * alpha^(d/(d-2)) (bloc97)."""

    alpha: float = 1.0


@dataclass(frozen=True)
class DynamicNtk:
    """NTK-aware change of base that follows the length in use, once it exceeds the original one."""

    factor: float = 1.0
    original_context: int = 0
    #: Hunyuan: the change of base up to the original context, as in NtkAlpha.
    alpha: float | None = None


@dataclass(frozen=True)
class Yarn:
    """YaRN as implementations have it: a ramp over pair numbers between two correction dims."""

    factor: float = 1.0
    original_context: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    #: Round the correction dims outwards to whole pairs (gpt-oss does not).
    truncate: bool = True
    #: The scale on cos and sin. None: from mscale and mscale_all_dim if both are given, else
    #: 0.1 ln(factor) + 1.
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    #: Whether attention must correct its softmax scale by mscale_all_dim, as DeepSeek's models do.
    softmax_correction: Literal["none", "mscale_all_dim_squared"] = "none"


@dataclass(frozen=True)
class YarnPaper:
    """YaRN as its paper writes it: a ramp over the turns a pair makes in the original context."""

    factor: float = 1.0
    original_context: int = 0
    alpha: float = 1.0
    beta: float = 32.0


@dataclass(frozen=True)
class YarnWalkthrough:
    """The "yarn" of a well-known walk-through. With the ramp of its code it is *not* YaRN: no pair
    but the first keeps its frequency, and there is no temperature. Here to reproduce models trained
    with it. The ramp of its prose is YaRN's over pair numbers."""

    factor: float = 1.0
    original_context: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Literal["code", "prose"] = "code"


@dataclass(frozen=True)
class LongRope:
    """LongRoPE: a divisor for each pair, one list up to the original context and one beyond it."""

    short_factor: Sequence[float] = ()
    long_factor: Sequence[float] = ()
    original_context: int = 0
    #: Extended over original context; sets the scale when `attention_factor` is None.
    factor: float = 1.0
    attention_factor: float | None = None
    #: Phi-MoE: explicit scales for the two regimes, instead of the above.
    short_mscale: float | None = None
    long_mscale: float | None = None

    def __post_init__(self) -> None:
        _freeze(self, "short_factor", "long_factor")


@dataclass(frozen=True)
class Llama3:
    """Llama 3.1: slow pairs divided by factor, fast ones kept, a ramp over turns between."""

    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0


@dataclass(frozen=True)
class Proportional:
    """Gemma 4: the ladder of the whole head, of which only the fastest `fraction` rotates."""

    fraction: float = 1.0
    factor: float = 1.0


@dataclass(frozen=True)
class Divisors:
    """A divisor for each pair, given as a list (GGUF's rope_freqs)."""

    divisor: Sequence[float] = ()

    def __post_init__(self) -> None:
        _freeze(self, "divisor")


@dataclass(frozen=True)
class Learnable:
    """Learned frequencies: f_i * exp(log_gain[i])."""

    log_gain: Sequence[float] = ()

    def __post_init__(self) -> None:
        _freeze(self, "log_gain")


@dataclass(frozen=True)
class ReceptiveField:
    """Receptive field: alpha / 10000^rho + (1 - alpha) f_i."""

    alpha: float = 0.0
    rho: float = 1.0


@dataclass(frozen=True)
class Xpos:
    """xPos: pair i also grows by zeta_i^(1/scale_base) per position, where
    zeta_i = (2i/d + gamma) / (1 + gamma). Queries use the rope as made, keys that of
    Rope.with_inverse_growth()."""

    scale_base: float = 512.0
    gamma: float = 0.4
    #: The position at which the growth is 1.
    origin: float = 0.0


Scaling = Union[
    Plain,
    Linear,
    Ntk,
    NtkAlpha,
    DynamicNtk,
    Yarn,
    YarnPaper,
    YarnWalkthrough,
    LongRope,
    Llama3,
    Proportional,
    Divisors,
    Learnable,
    ReceptiveField,
    Xpos,
]

# ---- Axes: which position drives which pair -----------------------------------------------------


@dataclass(frozen=True)
class OneAxis:
    """One position per token."""


@dataclass(frozen=True)
class Axial:
    """Axial 2-D, 3-D, ...: each axis rotates its own part of the pairs.

    order (a, b: axes; indices: rung of the axis' own ladder):
        "blocks"       [a0 a1 a2 b0 b1 b2]
        "alternating"  [a0 b0 a1 b1 a2 b2]
    ladder:
        "own"      each axis has a whole ladder over its own dims
        "strided"  axis a takes rungs a, a+n, a+2n, ... of the ladder over rotary_dim (Pixtral)
    """

    axes: int = 2
    #: Rotary dims of each axis, each even. Empty: equal even shares.
    dims: Sequence[int] = ()
    order: Literal["blocks", "alternating"] = "blocks"
    ladder: Literal["own", "strided"] = "own"
    #: Position axis of each laid-out part. Empty: 0, 1, 2, ...
    axis_order: Sequence[int] = ()

    def __post_init__(self) -> None:
        _freeze(self, "dims", "axis_order")


@dataclass(frozen=True)
class Mrope:
    """M-RoPE: one ladder, and sections that say which axis drives which pair.

    order (3 axes t h w, sections 2 2 1):
        "chunked"         [t t h h w]
        "interleaved"     [t h w t h]   axis by pair number mod n while its section lasts, else 0
        "round_robin"     [t h w t h]   as above, but exhausted axes are skipped
        "spatial_first"   [h w h w t]   ERNIE
        "spatial_blocks"  [h h w w t]   the same, sorted
    """

    #: Pairs of each axis; they add up to d/2.
    sections: Sequence[int] = ()
    order: Literal["chunked", "interleaved", "round_robin", "spatial_first", "spatial_blocks"] = (
        "chunked"
    )

    def __post_init__(self) -> None:
        _freeze(self, "sections")


@dataclass(frozen=True)
class Mixed:
    """RoPE-Mixed: every pair has a frequency for every axis. The ladder and theta are not used."""

    axes: int = 2
    #: [d/2 x axes], row-major: (fx, fy) of pair 0, of pair 1, ...; also as a matrix [d/2, axes].
    frequencies: Sequence[float] = ()

    def __post_init__(self) -> None:
        _freeze(self, "frequencies")
        if self.frequencies and isinstance(self.frequencies[0], (list, tuple)):
            flat = tuple(value for row in self.frequencies for value in row)
            object.__setattr__(self, "frequencies", flat)


AxisMap = Union[OneAxis, Axial, Mrope, Mixed]

# ---- The recipe ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """A ladder, its scaling and its axes."""

    rotary_dim: int
    #: The base of the ladder. Never guessed.
    theta: float
    #: d of the formulas where it is not rotary_dim; 0: rotary_dim.
    ladder_dim: int = 0
    scaling: Scaling = field(default_factory=Plain)
    axes: AxisMap = field(default_factory=OneAxis)
    #: "backward": angles are negative (nanochat).
    direction: Literal["forward", "backward"] = "forward"
    #: Multiplies every frequency.
    gain: float = 1.0
    #: "whole": each wavelength is rounded to whole positions (Resonance RoPE).
    wavelengths: Literal["exact", "whole"] = "exact"

    def to_json(self) -> str:
        """The recipe as JSON in one line, as `rotary inspect --json` and the C API have it; reading
        it again gives the same bits."""
        return _core.recipe_to_json(self)

    @staticmethod
    def from_json(text: str) -> Recipe:
        """The recipe of such a text."""
        made: Recipe = _core.recipe_from_json(text)
        return made
