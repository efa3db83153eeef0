# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Exact angles for the rotary classes of inference engines: what the plugins for vLLM and SGLang
share.

Both engines have one class for each recipe, with the same two methods: `_compute_inv_freq` gives
the frequencies, `_compute_cos_sin_cache` a table of cos and sin for all positions, [rows, cos |
sin]. Both work in float32, so that angles are wrong by about position * 6e-8. `ExactAngles`, a
mixin in front of such a class, takes the recipe from the class itself, evaluated in float64.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rotary.layout import HeadLayout
from rotary.rope import Frequencies, Rope

#: Rows of a table that are compared, and how far the engine's may be from the exact ones: float32
#: products of angles up to 64 rad.
_COMPARED, _TOLERANCE = 64, 2e-5


class InDouble(TorchFunctionMode):
    """Code in its scope that asks for float32 gets float64."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def widened(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = tuple(widened(value) for value in args)
        kwargs = {name: widened(value) for name, value in (kwargs or {}).items()}
        result = function(*args, **kwargs)
        if function is torch.tensor and "dtype" not in kwargs and result.is_floating_point():
            return function(*args, **kwargs, dtype=torch.float64)
        return result


def layout_text(
    head_dim: int,
    frequencies: Sequence[float],
    *,
    pairing: str,
    scale: float = 1.0,
    axis_of_pair: Sequence[int] | None = None,
) -> str:
    """The text of a rope of the first 2 * len(frequencies) elements of a head. `axis_of_pair` says
    which position turns a pair where tokens have several (M-RoPE); one position is for all axes."""
    fields: dict[str, Any] = {"head_dim": head_dim, "pairing": pairing, "scale": scale}
    if axis_of_pair is None:
        return json.dumps({**fields, "frequencies": list(frequencies)})
    axes = max(axis_of_pair) + 1
    matrix = [
        f if a == axis else 0.0 for f, axis in zip(frequencies, axis_of_pair) for a in range(axes)
    ]
    return json.dumps({**fields, "frequencies": matrix, "axes": axes, "one_axis": "on_all_axes"})


def exact_rows(frequencies: Sequence[float], scale: float, first: int, rows: int) -> Tensor:
    """[rows, cos | sin] of the positions from `first` on, times the scale: float32, on the CPU."""
    values = np.asarray(frequencies, np.float64)[:, None]
    layout = HeadLayout(2 * len(frequencies), 0, "half", None)
    rope = Rope.from_frequencies(Frequencies(values, scale=scale), layout=layout)
    cos, sin = rope.cos_sin(first, tokens=rows)
    return torch.from_numpy(np.concatenate((cos, sin), axis=-1))


class ExactAngles:
    """Mixin in front of an engine's rotary class: class Exact(ExactAngles, RotaryEmbedding).

    Its table holds exact cos and sin, rounded once to the type that the engine asks for, and is
    compared with the engine's own where float32 is good enough, at positions below 64: ValueError
    where they differ. Kernels that read the table need not know."""

    #: Radians per position of each pair, of the table computed last, and the factor of cos and sin.
    exact_frequencies: tuple[float, ...] = ()
    exact_scale: float = 1.0

    def _compute_inv_freq(self, *args: Any, **kwargs: Any) -> Tensor:
        compute = super()._compute_inv_freq  # type: ignore[misc]
        with torch.device("cpu"), InDouble():
            exact = compute(*args, **kwargs)
        self.exact_frequencies = tuple(exact.detach().double().cpu().tolist())
        own: Tensor = compute(*args, **kwargs)
        return own

    def _compute_cos_sin_cache(self, *args: Any, **kwargs: Any) -> Tensor:
        table: Tensor = super()._compute_cos_sin_cache(*args, **kwargs)  # type: ignore[misc]
        if table.is_meta:  # a construction without numbers
            return table
        self.exact_scale = self.scale_of_table(*args, **kwargs)
        factors = getattr(self, "scaling_factors", (1.0,))  # of linear scaling, one per adapter
        if len(factors) != 1:
            raise ValueError(f"{self._prefix()} one scaling factor is supported, got {factors}")
        self.exact_frequencies = tuple(f / factors[0] for f in self.exact_frequencies)
        first = getattr(self, "position_start", 0)
        exact = exact_rows(self.exact_frequencies, self.exact_scale, first, table.shape[0])
        self._compare(table[max(0, -first) :], exact[max(0, -first) :])
        return exact.to(device=table.device, dtype=table.dtype)

    def scale_of_table(self, *args: Any, **kwargs: Any) -> float:
        """The factor of cos and sin, of the arguments of `_compute_cos_sin_cache`."""
        return float(getattr(self, "mscale", 1.0))

    def _compare(self, table: Tensor, exact: Tensor) -> None:
        own = table[:_COMPARED].detach().float().cpu()
        if own.shape != exact[:_COMPARED].shape:
            raise ValueError(
                f"{self._prefix()} its table must be [rows, {exact.shape[1]}], got "
                f"{list(table.shape)}"
            )
        error = float((own - exact[:_COMPARED]).abs().max()) / self.exact_scale
        rounding = torch.finfo(table.dtype).eps / 2
        if not error <= _TOLERANCE + rounding:
            raise ValueError(
                f"{self._prefix()} its table differs by {error:.1e} from its frequencies in "
                f"float64, at positions below {_COMPARED}"
            )

    def _prefix(self) -> str:
        return f"[rotary] {type(self).__name__} cannot have exact angles:"


class _InDouble:
    """A module as its own code sees it that computes a table on the CPU, in float64."""

    dtype, device = torch.float64, torch.device("cpu")

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if name == "inv_freq":  # a buffer, in float32
            return torch.tensor(self._module.exact_frequencies, dtype=torch.float64)
        return value.detach().cpu() if isinstance(value, Tensor) else value


class ExactTables(ExactAngles):
    """Mixin in front of a class whose tables are not cos and sin of a position times a frequency:
    of dual chunk attention, whose positions are those in a chunk; of FoPE, which mixes frequencies;
    of patches of an image. The class's own code computes them in float64, rounded once; its
    forward, which reads them, stays."""

    def _compute_cos_sin_cache(self, *args: Any, **kwargs: Any) -> Any:
        compute = super(ExactAngles, self)._compute_cos_sin_cache  # type: ignore[misc]
        own = compute(*args, **kwargs)
        tables = own if isinstance(own, tuple) else (own,)
        if torch.compiler.is_compiling() or any(table.is_meta for table in tables):
            return own
        with torch.device("cpu"), InDouble():
            found = compute.__func__(_InDouble(self), *args, **kwargs)
        exact = found if isinstance(found, tuple) else (found,)
        for index, (table, right) in enumerate(zip(tables, exact)):
            if self.is_comparable(index):
                self._compare(_real(table), _real(right))
        rounded = tuple(
            right.to(device=table.device, dtype=table.dtype) for table, right in zip(tables, exact)
        )
        return rounded if isinstance(own, tuple) else rounded[0]

    def is_comparable(self, index: int) -> bool:
        """Whether the first rows of this table are of positions where float32 is good enough."""
        return True


def _real(table: Tensor) -> Tensor:
    return torch.view_as_real(table) if table.is_complex() else table
