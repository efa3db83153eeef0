# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds the rotations of an exported graph, and makes each a RotaryEmbedding with exact caches:

- RotaryEmbedding itself, with the cos and sin that the graph computes: so torch.onnx exports to
  opset 23.
- The single operations of transformers, for halves, X being [batch, heads, tokens, rotary_dim]:

    X * cos + Concat(-X[..., n:], X[..., :n]) * sin        n = rotary_dim / 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..layout import HeadLayout
from ..model import ModelRope
from ..rope import Rope
from . import operator
from .nodes import TYPES, Rotation, check_opset

#: Operations that a constant bound of a slice may go through.
PASSED = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


def attribute_of(node: onnx.NodeProto, name: str) -> int:
    """An integer attribute; 0 if there is none."""
    return next((attribute.i for attribute in node.attribute if attribute.name == name), 0)


class Graph:
    """A graph with its producers, its constants and what is known of its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph = model.graph
        self.producers = {name: node for node in self.graph.node for name in node.output}
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        inferred = onnx.shape_inference.infer_shapes(model).graph
        self.values = {
            value.name: value.type.tensor_type
            for values in (inferred.input, inferred.value_info, inferred.output)
            for value in values
        }

    def producer(self, name: str, op: str) -> onnx.NodeProto | None:
        node = self.producers.get(name)
        return node if node is not None and node.op_type == op else None

    def constant(self, name: str) -> np.ndarray | None:
        """The values of a constant integer, however it is cast and shaped; None for others."""
        while (node := self.producers.get(name)) is not None and node.op_type in PASSED:
            name = node.input[0]
        if name in self.initializers:
            return numpy_helper.to_array(self.initializers[name]).reshape(-1)
        if node is None or node.op_type != "Constant":
            return None
        attribute = node.attribute[0]
        if attribute.name == "value":
            return numpy_helper.to_array(attribute.t).reshape(-1)
        return np.asarray(onnx.helper.get_attribute_value(attribute)).reshape(-1)

    def shape(self, name: str) -> list[int | str] | None:
        value = self.values.get(name)
        if value is None or not value.HasField("shape"):
            return None
        return [d.dim_value if d.HasField("dim_value") else d.dim_param for d in value.shape.dim]

    def type_of(self, name: str) -> int:
        value = self.values.get(name)
        return value.elem_type if value is not None else TensorProto.UNDEFINED

    # ---- The pattern ----------------------------------------------------------------------------

    def half_of(self, name: str) -> tuple[str, int, int] | None:
        """The source of a part of the last axis and the part's range: (X, begin, end)."""
        split = self.producer(name, "Split")
        if split is not None:
            shape = self.shape(split.input[0])
            if len(split.output) != 2 or shape is None:
                return None
            if attribute_of(split, "axis") not in (-1, len(shape) - 1):
                return None
            sizes = self.constant(split.input[1]) if len(split.input) > 1 else None
            width = shape[-1]
            if not isinstance(width, int) or width == 0:
                return None
            first = width // 2 if sizes is None else int(sizes[0])
            at = list(split.output).index(name)
            return split.input[0], at * first, first if at == 0 else width
        node = self.producer(name, "Slice")
        if node is None or len(node.input) < 4:
            return None
        begin, end, axes = (self.constant(i) for i in node.input[1:4])
        step = self.constant(node.input[4]) if len(node.input) > 4 else np.array([1])
        shape = self.shape(node.input[0])
        if begin is None or end is None or axes is None or step is None or shape is None:
            return None
        width = shape[-1]
        if len(axes) != 1 or int(axes[0]) not in (-1, len(shape) - 1) or int(step[0]) != 1:
            return None
        if not isinstance(width, int) or width == 0:
            return None
        bounds = [int(v) + (width if v < 0 else 0) for v in (begin[0], end[0])]
        return node.input[0], bounds[0], min(bounds[1], width)

    def rotated_half(self, name: str) -> tuple[str, int] | None:
        """(X, n) if the value is Concat(-X[..., n:], X[..., :n])."""
        concat = self.producer(name, "Concat")
        if concat is None or len(concat.input) != 2:
            return None
        negated = self.producer(concat.input[0], "Neg")
        if negated is None:
            return None
        second, first = self.half_of(negated.input[0]), self.half_of(concat.input[1])
        if first is None or second is None or first[0] != second[0]:
            return None
        n = first[2]
        return (first[0], n) if first[1:] == (0, n) and second[1:] == (n, 2 * n) else None

    def rotations(self) -> Iterator[tuple[onnx.NodeProto, str, int]]:
        """(the last node, X, half its rotary dims) of every rotation; 0 if that is not known."""
        for node in self.graph.node:
            if node.op_type == "RotaryEmbedding":
                shape = self.shape(node.input[0]) or [0]
                whole = shape[-1] if isinstance(shape[-1], int) and len(shape) == 4 else 0
                yield (
                    node,
                    node.input[0],
                    (attribute_of(node, "rotary_embedding_dim") or whole) // 2,
                )
            if node.op_type != "Add":
                continue
            products = [self.producer(name, "Mul") for name in node.input]
            if None in products:
                continue
            found = self._rotation(*products) or self._rotation(*reversed(products))
            if found is not None:
                yield node, *found

    def _rotation(self, cos: onnx.NodeProto, sin: onnx.NodeProto) -> tuple[str, int] | None:
        for name in sin.input:
            half = self.rotated_half(name)
            if half is not None and half[0] in cos.input:
                return half
        return None


def used_names(graph: onnx.GraphProto) -> set[str]:
    """Names that nodes of the graph and of graphs inside of it read, and its outputs."""
    names = {value.name for value in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            inner: Iterable[onnx.GraphProto] = [*attribute.graphs]
            if attribute.HasField("g"):
                inner = [*inner, attribute.g]
            for one in inner:
                names |= used_names(one)
    return names


def remove_unused(graph: onnx.GraphProto) -> None:
    while True:
        used = used_names(graph)
        dead = [node for node in graph.node if not used & set(node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    for tensor in [t for t in graph.initializer if t.name not in used]:
        graph.initializer.remove(tensor)


def replace(
    model: onnx.ModelProto,
    rope: Rope | ModelRope,
    *,
    length: int = 0,
    position_ids: str = "position_ids",
    exact: bool = False,
) -> tuple[onnx.ModelProto, int]:
    """A copy of an exported model whose rotations are RotaryEmbedding with exact caches of `length`
    positions, and how many there were. What only computed cos and sin is removed.

    `rope` is the rotation that all of them have (rotary.Rope.from_pretrained, or a rope of
    rotary.Model), `position_ids` the name of an int64 value [batch, tokens] of the graph.
    ValueError if the graph has no rotation, an opset before 23, rotations of another pairing or
    rotary_dim, or of a type that RotaryEmbedding does not take.

    exact: by rotary's own operator for onnxruntime (rotary.onnx.register), without `length`, from
    opset 10 on, also for float64 and for ropes of several axes, whose position_ids are
    [axes, batch, tokens]."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if exact:
        operator.check_opset(opset, "replace")
    else:
        check_opset(opset, "replace")
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = Graph(result)
    ids = graph.values.get(position_ids)
    if ids is None or ids.elem_type != TensorProto.INT64:
        raise ValueError(f"[replace] the graph has no int64 value {position_ids!r}")
    found = list(graph.rotations())
    if not found:
        raise ValueError("[replace] the graph has no rotation of a known form")
    if exact:
        _replace_exactly(graph, found, rope, length, position_ids)
        if all(o.domain != operator.DOMAIN for o in result.opset_import):
            result.opset_import.append(operator.opset_id())
    else:
        made = rope.make_rope() if isinstance(rope, ModelRope) else rope
        _replace_by_caches(graph, found, made, length, position_ids)
    remove_unused(result.graph)
    del result.graph.value_info[:]
    onnx.checker.check_model(result)
    return result, len(found)


Found = list[tuple[onnx.NodeProto, str, int]]


def _replace_by_caches(
    graph: Graph, found: Found, rope: Rope, length: int, position_ids: str
) -> None:
    rotation = Rotation([rope], length, _type_of(graph, found, TYPES), "replace")
    rotation.layout = HeadLayout(rotation.rotary_dim, 0, rope.layout.pairing, rope.layout.pairing)
    for last, x, n in found:
        _check_node(last, x, n, rope)
        (node,) = rotation.nodes(x, last.output[0], position_ids, head_dim=rotation.rotary_dim)
        if last.op_type == "RotaryEmbedding":  # keeps its attributes
            last.input[1:] = node.input[1:]
        else:
            last.CopyFrom(node)
    graph.graph.initializer.extend(rotation.tensors)


def _replace_exactly(
    graph: Graph, found: Found, rope: Rope | ModelRope, length: int, position_ids: str
) -> None:
    if length:
        raise ValueError(f"[replace] exact angles have no caches and no length, got {length}")
    _type_of(graph, found, operator.TYPES)
    made = rope.make_rope() if isinstance(rope, ModelRope) else rope
    if made.frequencies.growth is not None:
        raise ValueError(
            "[replace] xPos scales q and k apart: a graph does not tell which is which"
        )
    text = operator.rope_text(rope)
    for last, x, n in found:
        _check_node(last, x, n, made)
        head = _head_dim(graph, last, x, 2 * made.frequencies.pairs)
        node = operator.rotate_node(
            x, position_ids, last.output[0], operator.with_head_dim(text, head)
        )
        last.CopyFrom(node)


def _head_dim(graph: Graph, last: onnx.NodeProto, x: str, rotary_dim: int) -> int:
    """Of the value that is rotated; single operations rotate all of it."""
    shape = graph.shape(x)
    width = shape[-1] if shape else 0
    if last.op_type != "RotaryEmbedding":
        return rotary_dim
    heads = attribute_of(last, "num_heads") if shape and len(shape) == 3 else 1
    if not isinstance(width, int) or width <= 0 or heads <= 0 or width % heads:
        raise ValueError(f"[replace] the head_dim of {x!r} is not known: its shape is {shape}")
    return width // heads


def _type_of(graph: Graph, found: Found, types: dict[str, int]) -> str:
    kinds = {graph.type_of(x) for _, x, _ in found}
    names = {number: name for name, number in types.items()}
    dtype = names.get(min(kinds)) if len(kinds) == 1 else None
    if dtype is None:
        words = ", ".join(TensorProto.DataType.Name(kind).lower() for kind in sorted(kinds))
        raise ValueError(f"[replace] rotations must be of one type of {list(types)}, got {words}")
    return dtype


def _check_node(last: onnx.NodeProto, x: str, n: int, rope: Rope) -> None:
    """Raises ValueError if a rotation of the graph cannot be that of the rope."""
    interleaved = last.op_type == "RotaryEmbedding" and attribute_of(last, "interleaved") == 1
    pairing = "interleaved" if interleaved else "half"
    own, rotary_dim = rope.layout.pairing, 2 * rope.frequencies.pairs
    if pairing != own:
        raise ValueError(f"[replace] the graph pairs {x!r} as {pairing}, the rope as {own}")
    if n and 2 * n != rotary_dim:
        raise ValueError(f"[replace] {x!r} has {2 * n} rotary dims, the rope {rotary_dim}")
