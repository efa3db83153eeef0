# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A rope as text, the form in which the operators take it.

The text is JSON with all parameters of the rotation, exactly. So graphs that contain it can be
compiled, exported and saved, and no cast of a module can change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def rope_text(rope: Any, *, one_axis: str = "refused") -> str:
    """The text of a rope: a rotary.Rope, a rotary.ModelRope, a dict of the keys below, or a text.

    head_dim, pairing, frequencies (a flat list [pairs x axes], or theta and rotary_dim), and where
    they are not the default: output_pairing, rotary_offset, axes, scale, softmax_scale, growth,
    growth_origin, precision ("reference"), one_axis ("on_all_axes": positions of one axis are
    broadcast to all, as for text tokens in M-RoPE).
    """
    if isinstance(rope, str):
        return rope
    if one_axis == "refused" and (kept := getattr(rope, "_text", "")):
        return str(kept)
    if isinstance(rope, Mapping):
        return json.dumps(dict(rope))
    if hasattr(rope, "make_rope"):  # a ModelRope
        if type(rope.recipe.axes).__name__ == "Mrope":
            one_axis = "on_all_axes"
        rope = rope.make_rope()
    if not hasattr(rope, "frequencies") or not hasattr(rope, "layout"):
        raise TypeError(
            f"[rotary.torch] rope must be a Rope or its text, got {type(rope).__name__}"
        )
    text = json.dumps(_fields(rope, one_axis))
    if one_axis == "refused" and hasattr(rope, "_text"):
        rope._text = text  # a Rope is immutable
    return text


def _fields(rope: Any, one_axis: str) -> dict[str, Any]:
    frequencies, layout = rope.frequencies, rope.layout
    fields = {
        "head_dim": layout.head_dim,
        "pairing": layout.pairing,
        "output_pairing": layout.output_pairing or layout.pairing,
        "rotary_offset": layout.rotary_offset,
        "precision": getattr(rope, "precision", "exact"),
        "one_axis": one_axis,
        "scale": frequencies.scale,
        "softmax_scale": frequencies.softmax_scale,
        "axes": frequencies.axes,
        "growth_origin": frequencies.growth_origin,
        "frequencies": [float(f) for row in frequencies.values for f in row],
    }
    if frequencies.growth is not None:
        fields["growth"] = [float(g) for row in frequencies.growth for g in row]
    defaults = {
        "output_pairing": layout.pairing, "rotary_offset": 0, "precision": "exact",
        "one_axis": "refused", "scale": 1.0, "softmax_scale": 1.0, "axes": 1, "growth_origin": 0.0,
    }  # fmt: skip
    return {key: value for key, value in fields.items() if defaults.get(key) != value}


def with_inverse_growth(text: str) -> str:
    """The rope of keys where that of queries grows (xPos); the same text without growth."""
    fields = json.loads(text)
    if not fields.get("growth"):
        return text
    return json.dumps({**fields, "growth": [-g for g in fields["growth"]]})
