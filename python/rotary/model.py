# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of a model, read from the files it is published with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core, _loading
from ._loading import ModelLike as ModelLike
from .layout import Cache, HeadLayout, Precision
from .recipe import Recipe
from .rope import Rope


@dataclass(frozen=True)
class ContextLength:
    """Positions the model was trained on, and those it is meant for. 0: not known."""

    trained: int = 0
    extended: int = 0


@dataclass(frozen=True)
class ModelRope:
    """One rotation of a model: for one layer type (`full_attention`, ...) or part
    (`text.default`, `vision.default`)."""

    recipe: Recipe
    layout: HeadLayout
    name: str = "default"
    #: One name per position axis, in the order in which positions are given: "t", "h", "w".
    axes: Sequence[str] = ("t",)
    context: ContextLength = field(default_factory=ContextLength)
    #: Layers that use it, where the config tells them apart.
    layers: Sequence[int] = ()
    #: Values the file does not give, with the family default that was used.
    assumed: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def make_frequencies(self, context: int = 0) -> _core.Frequencies:
        return _core.make_frequencies(self.recipe, context)

    def make_rope(
        self,
        context: int = 0,
        *,
        precision: Precision = "exact",
        cache: Cache | None = None,
        threads: int = 0,
    ) -> Rope:
        """`context`: positions in use, for recipes that depend on them; 0 is the trained length."""
        return Rope.from_frequencies(
            self.make_frequencies(context),
            layout=self.layout,
            precision=precision,
            cache=cache,
            threads=threads,
        )


@dataclass(frozen=True)
class Model:
    """All rotations of a model."""

    #: As the file says; empty if it does not.
    model_type: str
    ropes: Sequence[ModelRope]

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Model:
        """A config.json, a .gguf file, or a folder that holds one of them."""
        model: Model = _core.read_model(path)
        return model

    @staticmethod
    def from_config(config: str | Mapping[str, Any], source: str = "config.json") -> Model:
        """The content of a config.json, as text or as a dict."""
        model: Model = _loading.read_config(config, source)
        return model

    @staticmethod
    def from_gguf(data: bytes, source: str = "model.gguf") -> Model:
        """The bytes of a GGUF file, or of its beginning up to the end of the rope tensors."""
        model: Model = _core.model_from_gguf(data, source)
        return model

    def rope(self, name: str = "") -> ModelRope:
        """The rope of that name; "" is the only one, or else that of text or of the
        full-attention layers."""
        return self.ropes[_core.rope_index([rope.name for rope in self.ropes], name)]


def load_model(model: ModelLike) -> Model:
    """The model that is meant. Raises TypeError for any other object."""
    found: Model = _loading.read(model)
    return found


def known_model_types() -> list[str]:
    """Model types that the library knows by name, sorted."""
    return _core.known_model_types()
