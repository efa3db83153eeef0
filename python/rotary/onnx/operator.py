# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The custom operator rotary.Rotate of onnxruntime: exact angles, no caches.

    options = onnxruntime.SessionOptions()
    rotary.onnx.register(options)
    session = onnxruntime.InferenceSession("rope.onnx", options)

A node has the inputs X and positions, and the rope as text in its attribute `rope`. Other programs
load the library by its path: `python -c 'import rotary.onnx; print(rotary.onnx.library())'`.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import onnx
from onnx import TensorProto, helper

from ..layout import HeadLayout
from ..model import ModelRope
from ..rope import Rope

DOMAIN = "rotary"
VERSION = 1
OPSETS = (10, onnx.defs.onnx_opset_version())
TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float64": TensorProto.DOUBLE,
}


def library() -> str:
    """The path of the library with the operator. ImportError if the package has none."""
    beside = pathlib.Path(__file__).with_name("librotary_onnx.so")
    path = os.environ.get("ROTARY_ONNX_LIBRARY") or str(beside)
    if not os.path.exists(path):
        raise ImportError(f"rotary.onnx: the custom operator is not there: {path}")
    return path


def register(options: Any) -> None:
    """Makes the operator known to sessions of these onnxruntime.SessionOptions. onnxruntime 1.18 or
    newer."""
    options.register_custom_ops_library(library())


def check_opset(opset: int, function: str) -> None:
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise ValueError(
            f"[{function}] opset must be {OPSETS[0]} to {OPSETS[1]}, the newest of onnx "
            f"{onnx.__version__}; got {opset}"
        )


def check_type(dtype: str, function: str) -> None:
    if dtype not in TYPES:
        raise ValueError(f"[{function}] Rotate takes {', '.join(TYPES)}, got {dtype}")


def rope_text(rope: Rope | ModelRope, *, context: int = 0, keys: bool = False) -> str:
    """The attribute `rope`. A ModelRope is written as its recipe, and then the largest position of
    a call chooses the regime unless `context` does; a Rope as its frequencies. `keys`: of xPos,
    whose keys shrink as its queries grow."""
    fields = _layout_fields(rope.layout)
    if isinstance(rope, ModelRope):
        fields["recipe"] = json.loads(rope.recipe.to_json())
        fields["axes"] = list(rope.axes)
        if context:
            fields["context_in_use"] = context
        grows = type(rope.recipe.scaling).__name__ == "Xpos"
    else:
        frequencies = rope.frequencies
        fields["frequencies"] = [float(f) for f in frequencies.values.reshape(-1)]
        fields["axes"] = frequencies.axes
        fields["scale"] = frequencies.scale
        if rope.precision != "exact":
            fields["precision"] = rope.precision
        grows = frequencies.growth is not None
        if frequencies.growth is not None:
            fields["growth"] = [float(g) for g in frequencies.growth.reshape(-1)]
            fields["growth_origin"] = frequencies.growth_origin
    if grows and keys:
        fields["inverse_growth"] = True
    return json.dumps(fields)


def _layout_fields(layout: HeadLayout) -> dict[str, Any]:
    return {
        "head_dim": layout.head_dim,
        "rotary_offset": layout.rotary_offset,
        "pairing": layout.pairing,
        "output_pairing": layout.output_pairing or layout.pairing,
    }


def with_head_dim(text: str, head_dim: int) -> str:
    """The same rotation at the beginning of a head of another size."""
    return json.dumps({**json.loads(text), "head_dim": head_dim, "rotary_offset": 0})


def rotate_node(x: str, positions: str, out: str, rope: str) -> onnx.NodeProto:
    return helper.make_node("Rotate", [x, positions], [out], domain=DOMAIN, rope=rope)


def opset_id() -> onnx.OperatorSetIdProto:
    return helper.make_opsetid(DOMAIN, VERSION)
