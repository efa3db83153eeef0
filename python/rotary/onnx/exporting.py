# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of a model as an ONNX model."""

from __future__ import annotations

import os
import tempfile

import onnx
from onnx import TensorProto, helper

from .._core import version
from .._loading import ModelLike
from ..model import ModelRope, load_model
from ..rope import Rope
from . import operator
from .nodes import TYPES, Rotation, check_opset
from .regimes import Regimes, regimes_of


def export(
    model: ModelLike | Rope,
    path: str | os.PathLike[str] | None = None,
    *,
    rope: str = "",
    length: int = 0,
    context: int = 0,
    dtype: str = "float32",
    num_heads: tuple[int, int] | None = None,
    opset: int = 23,
    exact: bool = False,
) -> onnx.ModelProto:
    """Writes a model that rotates q and k by RotaryEmbedding, and returns it.

    Inputs are q and k, [batch, heads, tokens, head_dim], or, if `num_heads` of q and k are given,
    [batch, tokens, heads * head_dim]; and position_ids, int64 [batch, tokens], from 0 to
    length - 1. Outputs are q_rotated and k_rotated.

    `model` is what Rope.from_pretrained takes, `rope` the name of one of several, or it is a Rope.
    `length`: rows of the caches; 0: the context that the model is meant for. `context`: positions
    in use, for recipes that depend on them. Without it, LongRoPE gets caches of both regimes, of
    which the largest position of a call chooses. The file appears when it is complete.

    ValueError for an opset before 23, float64, several axes, xPos, dynamic NTK without `context`,
    and caches beyond protobuf's 2 GiB.

    exact: by rotary's own operator for onnxruntime (rotary.onnx.register), without caches and these
    limits: float64 as well, from opset 10 on, any position, and with several axes position_ids
    [axes, batch, tokens]. Recipes that depend on the context follow the largest position of a call,
    dynamic NTK too. ValueError for a `length`, which it does not have."""
    if exact:
        graph = _exact_graph(model, rope, length, context, dtype, num_heads, opset)
        opsets = [helper.make_opsetid("", opset), operator.opset_id()]
    else:
        check_opset(opset, "export")
        regimes, default_length = _regimes(model, rope, context)
        ropes = regimes.ropes
        rotation = Rotation(ropes, length or default_length, dtype, "export", regimes.switch)
        graph = _graph(rotation, ropes[0].layout.head_dim, num_heads)
        opsets = [helper.make_opsetid("", opset)]
    result = helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets, ignore_unknown=True),
        producer_name="rotary",
        producer_version=version,
    )
    onnx.checker.check_model(result, full_check=True)
    if path is not None:
        _write(result, path)
    return result


def _regimes(model: ModelLike | Rope, name: str, context: int) -> tuple[Regimes, int]:
    """And the length that the model is meant for."""
    if isinstance(model, Rope):
        return Regimes([model]), 0
    found: ModelRope = load_model(model).rope(name)
    length = found.context.extended or found.context.trained
    return regimes_of(found, context, length, "export"), length


def _graph(rotation: Rotation, head_dim: int, num_heads: tuple[int, int] | None) -> onnx.GraphProto:
    layout = rotation.layout
    if num_heads and (layout.rotary_offset or layout.pairing != layout.output_pairing):
        raise ValueError(
            "[export] q and k must be [batch, heads, tokens, head_dim], without num_heads, for a "
            "rotary slice inside the head or another pairing of the result"
        )
    rows, nodes = rotation.positions("position_ids")
    for name, heads in zip("qk", num_heads or (0, 0)):
        nodes += rotation.nodes(name, f"{name}_rotated", rows, head_dim=head_dim, num_heads=heads)
    values = _values(TYPES[rotation.dtype], head_dim, num_heads)
    return helper.make_graph(nodes, "rotary", *values, rotation.tensors)


def _exact_graph(
    model: ModelLike | Rope,
    name: str,
    length: int,
    context: int,
    dtype: str,
    num_heads: tuple[int, int] | None,
    opset: int,
) -> onnx.GraphProto:
    operator.check_opset(opset, "export")
    operator.check_type(dtype, "export")
    if length:
        raise ValueError(f"[export] exact angles have no caches and no length, got {length}")
    rope: Rope | ModelRope = model if isinstance(model, Rope) else load_model(model).rope(name)
    nodes = [
        operator.rotate_node(
            x,
            "position_ids",
            f"{x}_rotated",
            operator.rope_text(rope, context=context, keys=x == "k"),
        )
        for x in "qk"
    ]
    axes = len(rope.axes) if isinstance(rope, ModelRope) else rope.frequencies.axes
    values = _values(operator.TYPES[dtype], rope.layout.head_dim, num_heads, axes)
    return helper.make_graph(nodes, "rotary", *values)


def _values(
    kind: int, head_dim: int, num_heads: tuple[int, int] | None, axes: int = 1
) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    """Inputs q, k and position_ids, and outputs q_rotated and k_rotated."""
    make = helper.make_tensor_value_info
    shapes: dict[str, list[int | str]] = {}
    for name, heads in zip("qk", num_heads or (0, 0)):
        shapes[name] = (
            ["batch", "tokens", heads * head_dim]
            if num_heads
            else ["batch", f"{name}_heads", "tokens", head_dim]
        )
    ids = [*([axes] if axes > 1 else []), "batch", "tokens"]
    inputs = [make(name, kind, shape) for name, shape in shapes.items()]
    outputs = [make(f"{name}_rotated", kind, shape) for name, shape in shapes.items()]
    return [*inputs, make("position_ids", TensorProto.INT64, ids)], outputs


def _write(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    """Under a temporary name first, so that `path` is never half a file."""
    target = os.path.realpath(path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".rotary-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(model.SerializeToString())
            file.flush()
            os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(file.fileno(), 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
