# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the model that an argument names. Below both `model` and `rope`, which use it."""

from __future__ import annotations

import json
import os
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
