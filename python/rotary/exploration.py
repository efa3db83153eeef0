# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.explore: a model in the explorer page, in a notebook or a browser."""

from __future__ import annotations

import html
import json
import os
import pathlib
import tempfile
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass

from . import _core
from .inspection import inspect
from .model import ModelLike, load_model


@dataclass(frozen=True, repr=False)
class Exploration:
    """The explorer page with a model in it: one file that needs no network. A notebook shows it."""

    source: str
    html: str

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the page."""
        written = pathlib.Path(path)
        written.write_text(self.html, encoding="ascii")
        return written

    def open(self) -> pathlib.Path:
        """Writes the page to a temporary file and opens it in the browser."""
        handle, name = tempfile.mkstemp(prefix="rotary-explore-", suffix=".html")
        os.close(handle)
        page = self.save(name)
        webbrowser.open(page.as_uri())
        return page

    def __repr__(self) -> str:
        return (
            f"Exploration({self.source!r}): a page of {len(self.html)} bytes; save() or open() it"
        )

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="rotary explorer: {html.escape(self.source, quote=True)}" '
            f'srcdoc="{html.escape(self.html, quote=True)}" '
            'style="width:100%;height:860px;border:0"></iframe>'
        )


def explore(model: ModelLike) -> Exploration:
    """A page that shows the rotation of a model: wavelengths, recipes and frameworks compared,
    decay, maps, precision, pairing, and what to type for a longer context.

    `model`: a path (config.json, folder, .gguf), the dict of a config, or a config of
    transformers."""
    load_model(model)  # its errors
    text, source = _text_of(model)
    return Exploration(source, _core.explorer_page(text, source))


def _text_of(model: ModelLike) -> tuple[str, str]:
    """The text of a config.json and its name; what `rotary inspect --json` prints for others."""
    if isinstance(model, (str, os.PathLike)):
        path = pathlib.Path(model)
        config = path / "config.json" if path.is_dir() else path
        if config.suffix == ".json" and config.is_file():
            return config.read_text(encoding="utf-8"), path.name
        return json.dumps(inspect(model).data), path.name
    config_of = getattr(model, "config", model)
    if hasattr(config_of, "to_dict"):
        return json.dumps(config_of.to_dict(), default=str), type(config_of).__name__
    if isinstance(model, Mapping):
        return json.dumps(dict(model), default=str), "config.json"
    return json.dumps(inspect(model).data), "model"
