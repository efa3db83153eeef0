# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.inspect: what a model's rotation is, for a person and for a program."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _core, _html, _loading
from .dialects import Dialect
from .model import Model, ModelLike, ModelRope, load_model

_COLUMNS = 80


class Row(NamedTuple):
    """A line of the table: a name, its value, and an explanation."""

    name: str
    value: str
    words: str


@dataclass(frozen=True, repr=False)
class RopeInspection:
    """One rope of a model, in numbers and in words."""

    rope: ModelRope
    #: What `rotary inspect --json` prints: frequencies, scale, recipe, layout, ...
    data: dict[str, Any]
    rows: Sequence[Row]
    #: Lines of a bar chart of the wavelengths.
    chart: Sequence[str]
    sentences: Sequence[str]
    #: [pairs]: positions for one full turn, and the same without the recipe's scaling.
    wavelengths: NDArray[np.float64]
    unscaled_wavelengths: NDArray[np.float64]
    #: The axis that drives each pair; -1 where several do or none.
    pair_axes: Sequence[int]

    @property
    def name(self) -> str:
        return self.rope.name

    def __repr__(self) -> str:
        lines = [f"Rope {self.name}", *_table(self.rows)]
        if self.chart:
            lines += ["", "  Wavelength of each pair: positions per full turn, logarithmic scale"]
            lines += [f"  {line}" for line in self.chart]
        lines.append("")
        for sentence in self.sentences:
            lines += textwrap.wrap(sentence, _COLUMNS, initial_indent="  ", subsequent_indent="  ")
        lines += _remarks("assumed", self.rope.assumed) + _remarks("warning", self.rope.warnings)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        chart = _html.chart(
            self.wavelengths.tolist(),
            self.unscaled_wavelengths.tolist(),
            self.rope.context.trained,
        )
        remarks = {"assumed": self.rope.assumed, "warning": self.rope.warnings}
        return _html.rope(self.name, self.rows, chart, self.sentences, remarks)


@dataclass(frozen=True, repr=False)
class Inspection:
    """A model's rotation, explained. Shows itself as a table; in a notebook with a chart."""

    model: Model
    #: The path, or what else the model was given as.
    source: str
    ropes: Sequence[RopeInspection]
    #: The framework whose reading this is; None: rotary's own.
    dialect: Dialect | None = None
    #: Where the dialect is from and how it rounds.
    dialect_words: str = ""

    @property
    def model_type(self) -> str:
        return self.model.model_type

    @property
    def data(self) -> dict[str, Any]:
        """Everything as plain values, as `rotary inspect --json` prints it."""
        data = {"model_type": self.model_type, "ropes": [rope.data for rope in self.ropes]}
        return data if self.dialect is None else {**data, "dialect": self.dialect.full_name}

    def rope(self, name: str = "") -> RopeInspection:
        """The rope of that name; "" is the one that Rope.from_pretrained() takes."""
        return self.ropes[_core.rope_index([rope.name for rope in self.ropes], name)]

    def __repr__(self) -> str:
        title = f"{self.model_type or 'model of unknown type'}  {self.source}".rstrip()
        words = textwrap.wrap(self.dialect_words, _COLUMNS)
        parts = [title, *(["\n".join(words)] if words else []), *map(repr, self.ropes)]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        ropes = [rope._repr_html_() for rope in self.ropes]
        return _html.model(self.model_type or "model of unknown type", self.source, ropes)


def inspect(model: ModelLike, rope: str = "", *, context: int = 0, dialect: str = "") -> Inspection:
    """Reads and explains the rotation of a model: a path (config.json, folder, .gguf), the dict of
    a config, or a config of transformers.

    `rope` picks one of several by name; `context` is the number of positions in use, for recipes
    that depend on it. `dialect`: as that framework reads it, such as "vllm@0.32"; a model is then
    anything but a .gguf."""
    if dialect:
        return _inspect_dialect(model, rope, context, dialect)
    found = load_model(model)
    ropes = [found.rope(rope)] if rope else found.ropes
    source = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
    return Inspection(found, source, tuple(_inspect_rope(each, context) for each in ropes))


def _inspect_dialect(model: ModelLike, rope: str, context: int, dialect: str) -> Inspection:
    text, source = _loading.config_text(model)
    found = _core.inspect_dialect(text, source, dialect, context, _COLUMNS)
    read: Model = found["model"]
    ropes = [_described(*pair) for pair in zip(read.ropes, found["ropes"])]
    if rope:
        ropes = [ropes[_core.rope_index([each.name for each in ropes], rope)]]
    name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
    return Inspection(read, name, tuple(ropes), Dialect(**found["dialect"]), found["sentences"])


def _inspect_rope(rope: ModelRope, context: int) -> RopeInspection:
    return _described(rope, _core.describe_rope(rope, context, _COLUMNS))


def _described(rope: ModelRope, described: dict[str, Any]) -> RopeInspection:
    return RopeInspection(
        rope=rope,
        data=json.loads(described["json"]),
        rows=tuple(Row(*row) for row in described["rows"]),
        chart=tuple(described["chart"]),
        sentences=tuple(described["sentences"]),
        wavelengths=np.array(described["wavelengths"]),
        unscaled_wavelengths=np.array(described["unscaled_wavelengths"]),
        pair_axes=tuple(described["axes"]),
    )


def _table(rows: Sequence[Row]) -> list[str]:
    """Names and values in columns, explanations wrapped."""
    width = min(max((len(row.value) for row in rows if row.words), default=0), 24)
    lines = []
    for name, value, words in rows:
        if words:
            lead, text = f"  {name:<17}{value:<{width}}  ", words
        else:
            lead, text = f"  {name:<17}", value
        indent = " " * min(len(lead), 19 + width + 2)
        if len(lead) > len(indent):
            lines.append(lead.rstrip())
            lead = indent
        lines += textwrap.wrap(text, _COLUMNS, initial_indent=lead, subsequent_indent=indent)
    return lines


def _remarks(label: str, remarks: Sequence[str]) -> list[str]:
    lines = [""] if remarks else []
    for remark in remarks:
        lead = f"  {label}: "
        lines += textwrap.wrap(
            remark, _COLUMNS, initial_indent=lead, subsequent_indent=" " * len(lead)
        )
    return lines
