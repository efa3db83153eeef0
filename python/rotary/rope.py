# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation itself.

    rope = rotary.Rope(head_dim=128, theta=5e5, pairing="half")
    q, k = rope.rotate(q, k, positions=4096)   # new arrays; q is [tokens, heads, 128]
    rope.rotate_(q, k, positions=4096)         # in place

Each pair (x, y) is multiplied by the complex number z = scale * e^(i phase):
    (x, y) -> scale * (x cos - y sin, x sin + y cos)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core, _loading
from ._arrays import library_of
from ._calls import Call, Tensors, for_tensors, in_place, new, number_of, run
from ._loading import ModelLike
from .layout import Cache, HeadLayout, Pairing, Precision
from .norm import Norm, norm_call
from .positions import PositionsLike, distances
from .positions import positions as to_positions
from .recipe import AxisMap, OneAxis, Plain, Recipe, Scaling

Frequencies = _core.Frequencies
_RMS = Norm()


def _frequencies(
    values: Any, scale: float, softmax_scale: float, growth: Any, growth_origin: float
) -> Frequencies:
    return Frequencies(
        values, scale=scale, softmax_scale=softmax_scale, growth=growth, growth_origin=growth_origin
    )


def make_frequencies(recipe: Recipe, context: int = 0) -> Frequencies:
    """The frequencies of a recipe. `context` is the number of positions in use, for the recipes
    that depend on it; 0 means the length the model was trained for."""
    return _core.make_frequencies(recipe, context)


def depends_on_context(recipe: Recipe) -> bool:
    """Whether the frequencies of the recipe depend on `context`."""
    return _core.depends_on_context(recipe)


class Rope:
    """An immutable rotation: construct it once, use it from any number of threads.

    Tensors are [tokens, heads, head_dim] or [batch, tokens, heads, head_dim] with any strides, of
    float32, float64, bfloat16 or float16: arrays of NumPy, PyTorch, CuPy, JAX or any library with
    DLPack. They are never copied. float64 is computed in float64, the others in float32,
    rounded once. Tensors of one call share batch and tokens; heads and types may differ.

    Calls take `positions` as rotary.positions explains them, and for tensors on CUDA a `stream` (of
    PyTorch or CuPy, or a number), by default the current one of their library. One tensor gives one
    result, several give a tuple. ValueError, before anything is written, for arguments that do not
    fit together.
    """

    __slots__ = ("_cache", "_core", "_precision", "_text", "_threads")

    def __init__(
        self,
        *,
        head_dim: int,
        theta: float,
        pairing: Pairing,
        rotary_dim: int | None = None,
        rotary_offset: int = 0,
        output_pairing: Pairing | None = None,
        scaling: Scaling | None = None,
        axes: AxisMap | None = None,
        context: int = 0,
        ladder_dim: int = 0,
        direction: Any = "forward",
        gain: float = 1.0,
        wavelengths: Any = "exact",
        precision: Precision = "exact",
        cache: Cache | None = None,
        threads: int = 0,
    ) -> None:
        """A rope from its parameters: see Recipe for the frequencies, HeadLayout for the head.

        rotary_dim None: the whole head. threads 0: as many as OpenMP would use; 1: the calling
        thread alone. The pairing has no default: a wrong guess gives fluent nonsense, never an
        error."""
        recipe = Recipe(
            rotary_dim=head_dim if rotary_dim is None else rotary_dim,
            theta=theta,
            ladder_dim=ladder_dim,
            scaling=Plain() if scaling is None else scaling,
            axes=OneAxis() if axes is None else axes,
            direction=direction,
            gain=gain,
            wavelengths=wavelengths,
        )
        layout = HeadLayout(head_dim, rotary_offset, pairing, output_pairing)
        self._make(_core.make_frequencies(recipe, context), layout, precision, cache, threads)

    @classmethod
    def from_pretrained(
        cls,
        model: ModelLike,
        rope: str = "",
        *,
        context: int = 0,
        precision: Precision = "exact",
        cache: Cache | None = None,
        threads: int = 0,
    ) -> Rope:
        """The rope of a model: a config.json, a model folder or a .gguf file by its path, the dict
        of a config, or a config of transformers. `rope` names one of several; see inspect()."""
        found = _loading.read(model).rope(rope)
        return cls.from_frequencies(
            found.make_frequencies(context),
            layout=found.layout,
            precision=precision,
            cache=cache,
            threads=threads,
        )

    @classmethod
    def from_frequencies(
        cls,
        frequencies: Frequencies | Any,
        *,
        layout: HeadLayout,
        precision: Precision = "exact",
        cache: Cache | None = None,
        threads: int = 0,
    ) -> Rope:
        """A rope from a matrix [pairs, axes] of radians per unit of position."""
        if not isinstance(frequencies, Frequencies):
            values = np.asarray(frequencies, np.float64)
            frequencies = Frequencies(values[:, None] if values.ndim == 1 else values)
        rope = cls.__new__(cls)
        rope._make(frequencies, layout, precision, cache, threads)
        return rope

    def _make(
        self,
        frequencies: Frequencies,
        layout: HeadLayout,
        precision: Precision,
        cache: Cache | None,
        threads: int,
    ) -> None:
        self._precision: Precision = precision
        self._cache = cache or Cache()
        self._threads = threads
        self._text = ""  # for PyTorch's operators, once rotary.torch.rope_text has made it
        self._core = _core.Rope(frequencies, layout, (precision, self._cache, threads))

    # ---- Properties -----------------------------------------------------------------------------

    @property
    def frequencies(self) -> Frequencies:
        """The matrix [pairs, axes] that defines the rotation, with its factors."""
        return self._core.frequencies

    @property
    def layout(self) -> HeadLayout:
        """With output_pairing filled in."""
        layout: HeadLayout = self._core.layout
        return layout

    @property
    def precision(self) -> Precision:
        return self._precision

    @property
    def cache(self) -> Cache:
        return self._cache

    @property
    def threads(self) -> int:
        return self._threads

    def with_threads(self, threads: int) -> Rope:
        """The same rotation on another number of threads."""
        return self._with(self.frequencies, threads)

    def with_inverse_growth(self) -> Rope:
        """The rope of the keys, where this is that of the queries: xPos lets one grow as the other
        decays."""
        return self._with(self.frequencies.with_inverse_growth(), self.threads)

    def _with(self, frequencies: Frequencies, threads: int) -> Rope:
        return Rope.from_frequencies(
            frequencies,
            layout=self.layout,
            precision=self.precision,
            cache=self.cache,
            threads=threads,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.frequencies, self.layout, self.precision, self.cache, self.threads)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rope):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.frequencies.values.tobytes(), self.layout))

    def __repr__(self) -> str:
        f, layout = self.frequencies, self.layout
        parts = [f"head_dim={layout.head_dim}", f"rotary_dim={f.rotary_dim}"]
        parts.append(f"pairing={layout.pairing!r}")
        parts += [f"axes={f.axes}"] if f.axes > 1 else []
        parts += [f"scale={f.scale:.6g}"] if f.scale != 1 else []
        return f"Rope({', '.join(parts)})"

    # ---- The calls ------------------------------------------------------------------------------

    @for_tensors
    def rotate(
        self,
        tensors: Tensors,
        /,
        *,
        positions: PositionsLike = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Rotates into new arrays, or into `out`: an array or a tuple of them."""
        return new(self._core.rotate, tensors, _positions(positions, stream), stream, out)

    @for_tensors
    def rotate_(
        self, tensors: Tensors, /, *, positions: PositionsLike = None, stream: Any = None
    ) -> Any:
        """Rotates in place. Returns its arguments."""
        return in_place(self._core.rotate, tensors, _positions(positions, stream), stream)

    @for_tensors
    def unrotate(
        self,
        tensors: Tensors,
        /,
        *,
        positions: PositionsLike = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """The inverse, scale included: reads the output pairing, writes the input pairing."""
        return new(self._core.unrotate, tensors, _positions(positions, stream), stream, out)

    @for_tensors
    def unrotate_(
        self, tensors: Tensors, /, *, positions: PositionsLike = None, stream: Any = None
    ) -> Any:
        """unrotate() in place."""
        return in_place(self._core.unrotate, tensors, _positions(positions, stream), stream)

    @for_tensors
    def norm_rotate(
        self,
        tensors: Tensors,
        /,
        *,
        weights: Any = None,
        biases: Any = None,
        norm: Norm = _RMS,
        positions: PositionsLike = None,
        out: Any = None,
    ) -> Any:
        """Normalises heads and rotates them, in one pass. Arrays on the CPU, of float32, bfloat16
        or float16. `weights` and `biases`: None, or an array or None for each tensor, [head_dim]
        or [heads * head_dim], as the norm's scope is."""
        call = norm_call(self._core, tensors, weights, biases, norm)
        return new(call, tensors, _positions(positions, None), None, out)

    @for_tensors
    def norm_rotate_(
        self,
        tensors: Tensors,
        /,
        *,
        weights: Any = None,
        biases: Any = None,
        norm: Norm = _RMS,
        positions: PositionsLike = None,
    ) -> Any:
        """norm_rotate() in place."""
        call = norm_call(self._core, tensors, weights, biases, norm)
        return in_place(call, tensors, _positions(positions, None), None)

    @for_tensors
    def adjoint(
        self,
        tensors: Tensors,
        /,
        *,
        positions: PositionsLike = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """The transpose: maps the gradient of the output to the gradient of the input."""
        return new(self._core.adjoint, tensors, _positions(positions, stream), stream, out)

    @for_tensors
    def adjoint_(
        self, tensors: Tensors, /, *, positions: PositionsLike = None, stream: Any = None
    ) -> Any:
        """adjoint() in place."""
        return in_place(self._core.adjoint, tensors, _positions(positions, stream), stream)

    @for_tensors
    def shift(
        self, tensors: Tensors, /, *, delta: PositionsLike, out: Any = None, stream: Any = None
    ) -> Any:
        """Moves rotated keys: those rotated for position p become those of p + delta.

        A number is one distance for all tokens, rotary.at(deltas) one per batch row, an array one
        per token. Applies no scale, so that repeated shifts do not drift."""
        return new(self._core.shift, tensors, _distances(delta, stream), stream, out)

    @for_tensors
    def shift_(self, tensors: Tensors, /, *, delta: PositionsLike, stream: Any = None) -> Any:
        """shift() in place."""
        return in_place(self._core.shift, tensors, _distances(delta, stream), stream)

    @for_tensors
    def rerotate(
        self,
        tensors: Tensors,
        /,
        *,
        to: Rope,
        positions: PositionsLike = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Changes the recipe of keys that this rope rotated at `positions` to that of `to`.

        One multiplication by z_to / z_from, without going back through the unrotated keys."""
        return new(_rerotation(self, to), tensors, _positions(positions, stream), stream, out)

    @for_tensors
    def rerotate_(
        self, tensors: Tensors, /, *, to: Rope, positions: PositionsLike = None, stream: Any = None
    ) -> Any:
        """rerotate() in place."""
        return in_place(_rerotation(self, to), tensors, _positions(positions, stream), stream)

    def cos_sin(
        self,
        positions: PositionsLike = None,
        *,
        tokens: int | None = None,
        batch: int | None = None,
        dtype: str = "float32",
        like: Any = None,
        stream: Any = None,
    ) -> tuple[Any, Any]:
        """cos and sin of every token, times the scale, as rotate() uses them: [tokens, pairs], or
        [batch, tokens, pairs] where batch rows differ; rounded once to `dtype`.

        `tokens` and `batch` are needed where the positions do not tell (ranges). The arrays are of
        the kind of `like`, else of the positions where those are an array, else of NumPy."""
        if like is None:
            like = positions if hasattr(positions, "__dlpack__") else np.empty(0)
        at = _positions(positions, stream)
        rows = at.tokens if tokens is None else tokens
        if rows is None:
            raise ValueError("[cos_sin] tokens must be given for positions that fit any number")
        sets = at.batch if batch is None else batch
        shape = [*([] if sets is None else [sets]), rows, self.frequencies.pairs]
        library = library_of(like)
        cos, sin = library.empty(shape, dtype, like), library.empty(shape, dtype, like)

        def call(outs: Tensors, _: Any, token_positions: _core.Positions, handle: int) -> None:
            self._core.cos_sin(outs[0], outs[1], token_positions, handle)

        run(call, (cos, sin), None, at, stream)
        return library.finish(cos), library.finish(sin)


def _restore(
    frequencies: Frequencies, layout: HeadLayout, precision: Precision, cache: Cache, threads: int
) -> Rope:
    return Rope.from_frequencies(
        frequencies, layout=layout, precision=precision, cache=cache, threads=threads
    )


def _positions(positions: PositionsLike, stream: Any) -> _core.Positions:
    return to_positions(positions, stream=number_of(stream))


def _distances(delta: PositionsLike, stream: Any) -> _core.Positions:
    return distances(delta, stream=number_of(stream))


def _rerotation(source: Rope, target: Rope) -> Call:
    def call(ins: Tensors, outs: Any, at: _core.Positions, stream: int) -> None:
        _core.rerotate(ins, outs, source._core, target._core, at, stream)

    return call
