# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What the rotations of a graph take cos and sin from, and whether those are a rope's.

A model with layers of two kinds (Gemma 3) has two sources. Exporters often compute the same cos and
sin again for every rotation: values that are computed in the same way are one source. Where that
takes nothing but positions and constants, it is evaluated at a few positions."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ..model import ModelRope
from ..rope import Rope

AnyRope = Union[Rope, ModelRope]

#: Positions below this are compared, and as many beside the last one of the caches, or beside the
#: position FAR without caches.
NEAR, FAR = 64, 1 << 17
#: Tokens of an evaluation, where the graph takes any number.
TOKENS = 8
#: What an angle in float32 may be wrong by, relative to it, and how types round cos and sin.
ANGLE = 2.0**-20
ROUNDING = {TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7}


@dataclasses.dataclass(frozen=True)
class RotationNode:
    """A rotation of a graph: its last node, X, half its rotary dims (0: not known), cos and sin."""

    last: onnx.NodeProto
    x: str
    half: int
    cos: str
    sin: str


@dataclasses.dataclass
class Source:
    """A cos and sin, by the name of the first such cos, and the rotations by them."""

    name: str
    rotations: list[RotationNode]


def ancestors(
    graph: onnx.GraphProto, names: Sequence[str], known: str = ""
) -> list[onnx.NodeProto]:
    """The nodes that values are computed by, of one that is known too, in the graph's order."""
    producers = {name: i for i, node in enumerate(graph.node) for name in node.output}
    found: set[int] = set()
    open_names = list(names)
    while open_names:
        name = open_names.pop()
        at = producers.get(name) if name != known else None
        if at is not None and at not in found:
            found.add(at)
            open_names += inputs_of(graph.node[at])
    return [graph.node[i] for i in sorted(found)]


def inputs_of(node: onnx.NodeProto) -> list[str]:
    """Of CastLike without the value that has the type alone."""
    return list(node.input[:1] if node.op_type == "CastLike" else node.input)


def find_sources(graph: onnx.GraphProto, rotations: Sequence[RotationNode]) -> list[Source]:
    """In the order of the graph."""
    names = [name for rotation in rotations for name in (rotation.cos, rotation.sin)]
    # Of tensors whose data lies in files that were not loaded, nothing but the name is known.
    constants = {
        tensor.name: tensor
        for tensor in graph.initializer
        if tensor.data_location != TensorProto.EXTERNAL
    }
    ways: dict[str, str] = {}  # how a value is computed

    def way(name: str) -> str:
        if name not in ways and name in constants:
            values = numpy_helper.to_array(constants[name])
            content = f"{values.dtype}{values.shape}".encode() + values.tobytes()
            ways[name] = hashlib.sha256(content).hexdigest()
        return ways.get(name, name)

    for node in ancestors(graph, names):
        attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
        parts = [node.domain, node.op_type, *(way(name) for name in inputs_of(node))]
        content = repr((parts, attributes)).encode()
        digest = hashlib.sha256(content).hexdigest()
        ways.update({name: f"{digest}.{i}" for i, name in enumerate(node.output)})
    found: dict[tuple[str, str], Source] = {}
    for rotation in rotations:
        key = (way(rotation.cos), way(rotation.sin))
        found.setdefault(key, Source(rotation.cos, [])).rotations.append(rotation)
    return list(found.values())


def ropes_of(
    sources: Sequence[Source], ropes: AnyRope | Mapping[str, AnyRope]
) -> dict[str, AnyRope]:
    """The rope of every source. ValueError where some have none, or a name is of no source."""
    names = [source.name for source in sources]
    if not isinstance(ropes, Mapping):
        return dict.fromkeys(names, ropes)
    if set(ropes) != set(names):
        raise ValueError(
            f"[replace] a rope for each source of cos and sin must be given: {described(sources)}; "
            f"got ropes for {sorted(ropes)}"
        )
    return dict(ropes)


def described(sources: Sequence[Source]) -> str:
    """Names of sources with the values that they rotate."""
    words = []
    for source in sources:
        rotated = [f"{rotation.x!r}" for rotation in source.rotations]
        rest = f" and {len(rotated) - 2} more" if len(rotated) > 2 else ""
        words.append(f"{source.name!r} (of {', '.join(rotated[:2])}{rest})")
    return ", ".join(words)


class Probes:
    """Values of cos and sin at some positions."""

    def __init__(self, model: onnx.ModelProto, position_ids: str, shape: Sequence[int | str]):
        self.model, self.position_ids = model, position_ids
        sizes = [size if isinstance(size, int) and size > 0 else 1 for size in shape]
        if not isinstance(shape[-1], int) or shape[-1] <= 0:
            sizes[-1] = TOKENS
        self.shape = sizes

    def evaluate(self, rotation: RotationNode, ids: np.ndarray) -> list[np.ndarray] | None:
        """cos and sin as [rows, width], rows in the order of ids; None if that is not known."""
        graph = self.model.graph
        nodes = ancestors(graph, [rotation.cos, rotation.sin], self.position_ids)
        names = {name for node in nodes for name in node.input} | {rotation.cos, rotation.sin}
        known = {name for node in nodes for name in node.output} | {""}
        tensors = [tensor for tensor in graph.initializer if tensor.name in names]
        if names - known - {tensor.name for tensor in tensors} - {self.position_ids}:
            return None  # takes more than positions
        make = helper.make_tensor_value_info
        outputs = list(dict.fromkeys((rotation.cos, rotation.sin)))
        part = helper.make_graph(
            nodes,
            "sources",
            [make(self.position_ids, TensorProto.INT64, None)],
            [make(name, TensorProto.UNDEFINED, None) for name in outputs],
            tensors,
        )
        model = helper.make_model(
            part, opset_imports=self.model.opset_import, functions=self.model.functions
        )
        try:
            feeds = {self.position_ids: np.broadcast_to(ids, self.shape).copy()}
            values = dict(zip(outputs, ReferenceEvaluator(model).run(None, feeds)))
        except Exception:  # whatever an operator does with positions that it was not made for
            return None
        found = [np.asarray(values[name]) for name in (rotation.cos, rotation.sin)]
        return self._rows(rotation, found, ids)

    def _rows(
        self, rotation: RotationNode, found: list[np.ndarray], ids: np.ndarray
    ) -> list[np.ndarray] | None:
        if rotation.last.op_type == "RotaryEmbedding" and len(rotation.last.input) > 3:
            if any(table.ndim != 2 or ids.max() >= len(table) for table in found):
                return None
            return [table[ids].astype(np.float64) for table in found]
        result = []
        for value in found:
            width = value.shape[-1] if value.ndim else 0
            if width == 0 or value.size % (len(ids) * width):
                return None
            rows = value.reshape(-1, len(ids), width).astype(np.float64)
            if len(rows) == 0 or not (rows == rows[0]).all():  # positions are the same in all
                return None
            result.append(rows[0])
        return result

    def positions(self, first: int) -> np.ndarray:
        """As many as the graph takes, from `first` to `first` + NEAR - 1."""
        tokens = self.shape[-1]
        steps = np.arange(tokens) * (NEAR - 1) // (tokens - 1) if tokens > 1 else [NEAR - 1]
        return first + np.asarray(steps, np.int64)


def check_source(
    probes: Probes, source: Source, ropes: Sequence[Rope], last: int, kind: int
) -> str | None:
    """What the graph's cos and sin differ by from those of every one of the ropes, in words; None
    if they do not, and "" if that is not known. `last`: a position far away."""
    known = False
    tried = [probes.positions(0), probes.positions(max(0, last - NEAR))]
    if probes.evaluate(source.rotations[0], tried[0]) is None:  # a table of a few rows
        tried = [np.arange(probes.shape[-1], dtype=np.int64)]
    for ids in tried:
        values = probes.evaluate(source.rotations[0], ids)
        if values is None:
            continue
        known = True
        errors = [_error(values, rope, ids, kind) for rope in ropes]
        if min(error for error, _ in errors) > 0:
            return f"at position {min(errors)[1]} by {min(errors)[0]:.2g}"
    return None if known else ""


def _error(values: list[np.ndarray], rope: Rope, ids: np.ndarray, kind: int) -> tuple[float, int]:
    """The largest difference, and where; 0 if all are within the errors of angles in float32."""
    axes = rope.frequencies.axes
    at = ids if axes == 1 else np.broadcast_to(ids, (axes, len(ids)))
    exact = rope.cos_sin(np.ascontiguousarray(at), dtype="float64")
    differences = []
    for own, right in zip(values, exact):
        right = right.reshape(len(ids), -1)
        if own.shape[-1] == 2 * right.shape[-1]:
            right = np.concatenate((right, right), -1)
        if own.shape != right.shape:
            return float("inf"), int(ids[0])
        differences.append(np.abs(own - right).max(-1))
    worst = np.maximum(*differences)
    allowed = abs(rope.frequencies.scale) * (ANGLE * np.maximum(ids, 1) + ROUNDING.get(kind, ANGLE))
    over = np.where(worst > allowed, worst, 0.0)
    row = int(over.argmax())
    return float(over[row]), int(ids[row])
