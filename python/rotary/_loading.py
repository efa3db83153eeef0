# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the model that an argument names. Below both `model` and `rope`, which use it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Union

from . import _core

#: A model: a path, the dict of its config.json, a config of transformers or a module that has one,
#: or a rotary.Model.
ModelLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Any]


def read_config(config: str | Mapping[str, Any], source: str) -> Any:
    """The rotary.Model of the content of a config.json, as text or as a dict."""
    text = config if isinstance(config, str) else json.dumps(dict(config), default=str)
    return _core.model_from_config(text, source)


def config_text(model: ModelLike) -> tuple[str, str]:
    """The text of a model's config.json, and its name. Raises TypeError for what has none."""
    if isinstance(model, (str, os.PathLike)):
        _core.read_model(model)  # its errors, and its limits
        path = pathlib.Path(model)
        path = path / "config.json" if path.is_dir() else path
        data = path.read_bytes()
        if data.startswith(b"GGUF"):
            raise ValueError(f"[rotary] {path} is a GGUF file; give the config.json of the model")
        return data.decode(), os.fspath(model)
    if isinstance(model, Mapping):
        return json.dumps(dict(model), default=str), "config.json"
    config: Any = getattr(model, "config", model)
    if hasattr(config, "to_dict"):
        return json.dumps(config.to_dict(), default=str), type(config).__name__
    raise TypeError(
        f"[rotary] a config is a path, the dict of a config.json or a config with to_dict(), "
        f"got {type(model).__name__}"
    )


def read(model: ModelLike) -> Any:
    """The rotary.Model that is meant. Raises TypeError for any other object."""
    if isinstance(model, (str, os.PathLike)):
        return _core.read_model(model)
    if isinstance(model, Mapping):
        return read_config(model, "config.json")
    if hasattr(model, "model_type") and hasattr(model, "ropes"):
        return model
    config: Any = getattr(model, "config", model)
    if hasattr(config, "to_dict"):
        return read_config(config.to_dict(), type(config).__name__)
    raise TypeError(
        f"[rotary] a model is a path, the dict of its config.json or a config with to_dict(), "
        f"got {type(model).__name__}"
    )
