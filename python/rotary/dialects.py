# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Dialects: what other frameworks make of the same config.json, and plans for a longer context.

rotary.diff("Qwen2.5-7B/", "onnxruntime-genai@2026-08")   # against transformers
rotary.plan("Qwen2.5-7B/", 131072, engine="vllm")         # what to type
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core, _loading
from .model import ModelLike

_COLUMNS = 80


@dataclass(frozen=True)
class Dialect:
    """A framework and a version of it."""

    name: str
    version: str
    #: The file that its rules are from.
    source: str
    #: "run": compared with the package's own tables; "read": from its source alone.
    evidence: str
    #: How it rounds the angle, the stored cos and sin, and the rotation itself.
    angle: str
    table: str
    rotation: str

    @property
    def full_name(self) -> str:
        """ "vllm@0.32"."""
        return f"{self.name}@{self.version}"


def known_dialects() -> list[Dialect]:
    """All dialects, the newest of transformers first."""
    return [Dialect(**each) for each in _core.known_dialects()]


@dataclass(frozen=True, repr=False)
class Report:
    """What a command prints: `data` with --json, and as text for people."""

    data: dict[str, Any]
    text: str

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


class DialectDiff(Report):
    """One model in two dialects: b against a."""

    @property
    def a(self) -> str:
        return str(self.data["a"])

    @property
    def b(self) -> str:
        return str(self.data["b"])

    @property
    def same(self) -> bool:
        """Whether they rotate alike and can share a KV cache."""
        return bool(self.data["same"])

    @property
    def ropes(self) -> Sequence[Mapping[str, Any]]:
        """For each rope: dropped_keys, scale, score_factor, pairs, first_position, notice, ..."""
        return list(self.data["ropes"])


class Plan(Report):
    """What to do for a context of so many tokens."""

    @property
    def coverage(self) -> str:
        """ "trained", "extended" or "beyond": the last needs one of the options."""
        return str(self.data["coverage"])

    @property
    def options(self) -> Sequence[Mapping[str, Any]]:
        """Recipes with rope_parameters, their effects, and lines to type by engine."""
        return list(self.data["options"])


def diff(
    model: ModelLike, dialect: str, against: str = "hf", *, rope: str = "", context: int = 0
) -> DialectDiff:
    """What `dialect` makes of a model, compared with what another one does.

    `model`: a config.json, a folder with one, its dict, or a config of transformers. `dialect`:
    "vllm@0.32", or "vllm" for its newest version. `rope` picks one of several by name; `context`
    is the number of positions in use."""
    text, source = _loading.config_text(model)
    data, report = _core.diff_dialects(text, source, against, dialect, rope, context, _COLUMNS)
    return DialectDiff(json.loads(data), report)


def plan(model: ModelLike, context: int, *, engine: str = "", rope: str = "") -> Plan:
    """What to do for `context` tokens: whether the model has them, and else each recipe's
    parameters, effects and lines to type, read back in the dialect of the engine ("hf", "vllm",
    "sglang" or "llama.cpp"; default: all)."""
    text, source = _loading.config_text(model)
    data, report = _core.plan(text, source, rope, context, engine, _COLUMNS)
    return Plan(json.loads(data), report)
