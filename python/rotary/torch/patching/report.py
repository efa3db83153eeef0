# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What patch() replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Replaced:
    """A function that rotates, as the modules of one class call it."""

    #: As in "modeling_llama.apply_rotary_pos_emb".
    function: str
    #: The class that calls it, and how many modules of the model are of it.
    caller: str
    layers: int
    #: model_type of the config nearest to it.
    family: str
    #: "half", "interleaved", "interleaved, output half", ...
    pairing: str
    #: Elements of a head that rotate, and elements of a head; 0 where a module does not say.
    rotary_dim: int
    head_dim: int
    #: Largest difference from the model's own on the probe, in units of the largest element.
    difference: float
    #: The norm of q and k, as in "rms" or "rms, all heads", and how many modules have it fused.
    norm: str = ""
    fused: int = 0
    #: Why norms of other modules are not fused.
    kept: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        return 0 < self.rotary_dim < self.head_dim


@dataclass
class Patch:
    """What was replaced, and undo(), which the end of a with statement calls."""

    replaced: tuple[Replaced, ...]
    #: "model": the model's own cos and sin; "exact": of exact angles.
    angles: str
    #: Rotary modules that give exact tables now.
    tables: tuple[str, ...] = ()
    _undo: Callable[[], None] | None = field(default=None, repr=False)

    def undo(self) -> None:
        """Restores the model. A second call does nothing."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.undo()

    def __repr__(self) -> str:
        state = "undone" if self._undo is None else f"angles: {self.angles}"
        head = ("function", "called by", "family", "pairs", "rotates", "difference", "norm")
        rows = [head, *(_row(each) for each in self.replaced)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        for each in self.replaced:
            lines += [f"norms of {each.caller} are not fused: {why}" for why in each.kept]
        return "\n".join([f"Patch ({state})", *(f"  {line.rstrip()}" for line in lines)])


def _row(each: Replaced) -> tuple[str, ...]:
    rotated = f"{each.rotary_dim} of {each.head_dim}" if each.partial else f"{each.rotary_dim}"
    called = f"{each.layers} x {each.caller}"
    norm = ""
    if each.fused:
        some = "" if each.fused == each.layers else f" in {each.fused}"
        norm = f"{each.norm} (fused{some})"
    difference = f"{each.difference:.1e}"
    return each.function, called, each.family, each.pairing, rotated, difference, norm
