# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of a model, read from the files it is published with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from . import _core
from .layout import Cache, HeadLayout, Precision
from .recipe import Recipe

if TYPE_CHECKING:
    from .rope import Rope


@dataclass(frozen=True)
class ContextLength:
    """How many positions the model has seen, and is meant to work with. 0: not known."""

    trained: int = 0
    extended: int = 0


@dataclass(frozen=True)
class ModelRope:
    """One rotation of a model: for one layer type (`full_attention`, ...) or part
    (`text.default`, `vision.default`)."""

    recipe: Recipe
    layout: HeadLayout
    name: str = "default"
    #: One name a position axis, in the order in which positions are given: "t", "h", "w".
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
        from .rope import Rope

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
        text = config if isinstance(config, str) else json.dumps(dict(config), default=str)
        model: Model = _core.model_from_config(text, source)
        return model

    @staticmethod
    def from_gguf(data: bytes, source: str = "model.gguf") -> Model:
        """The bytes of a GGUF file, or of its beginning up to the end of the rope tensors."""
        model: Model = _core.model_from_gguf(data, source)
        return model

    def rope(self, name: str = "") -> ModelRope:
        """The rope of that name; "" is the only one, or else the text's or that of the
        full-attention layers."""
        return self.ropes[_core.rope_index([rope.name for rope in self.ropes], name)]


#: What stands for a model: a path, the dict of its config.json, a config of transformers or a
#: module that has one, or a Model.
ModelLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Model, Any]


def load_model(model: ModelLike) -> Model:
    """The model that is meant. Raises TypeError for what stands for none."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        return Model.read(model)
    if isinstance(model, Mapping):
        return Model.from_config(model)
    config: Any = getattr(model, "config", model)
    if hasattr(config, "to_dict"):
        return Model.from_config(config.to_dict(), source=type(config).__name__)
    raise TypeError(
        f"[rotary] a model is a path, the dict of its config.json or a config with to_dict(), "
        f"got {type(model).__name__}"
    )


def known_model_types() -> list[str]:
    """Model types that the library knows by name, sorted."""
    return _core.known_model_types()
