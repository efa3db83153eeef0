# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds the rotations of an exported graph, and makes each a RotaryEmbedding with exact caches:

- RotaryEmbedding itself, with the cos and sin that the graph computes: so torch.onnx exports to
  opset 23.
- The single operations of transformers, for halves, X being [batch, heads, tokens, rotary_dim]:

    X * cos + Concat(-X[..., n:], X[..., :n]) * sin        n = rotary_dim / 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..layout import HeadLayout
from ..rope import Rope
from . import operator
from .nodes import TYPES, Rotation, check_opset
from .regimes import Regimes, regimes_of
from .sources import (
    FAR,
    NEAR,
    AnyRope,
    Probes,
    RotationNode,
    Source,
    check_source,
    described,
    find_sources,
    ropes_of,
)

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

    def rotations(self) -> Iterator[RotationNode]:
        for node in self.graph.node:
            if node.op_type == "RotaryEmbedding":
                shape = self.shape(node.input[0]) or [0]
                whole = shape[-1] if isinstance(shape[-1], int) and len(shape) == 4 else 0
                half = (attribute_of(node, "rotary_embedding_dim") or whole) // 2
                yield RotationNode(node, node.input[0], half, node.input[1], node.input[2])
            if node.op_type != "Add":
                continue
            products = [self.producer(name, "Mul") for name in node.input]
            if None in products:
                continue
            found = self._rotation(node, *products) or self._rotation(node, *reversed(products))
            if found is not None:
                yield found

    def _rotation(
        self, last: onnx.NodeProto, cos: onnx.NodeProto, sin: onnx.NodeProto
    ) -> RotationNode | None:
        for i, name in enumerate(sin.input):
            half = self.rotated_half(name)
            if half is not None and half[0] in cos.input:
                x, n = half
                return RotationNode(
                    last, x, n, cos.input[1 - list(cos.input).index(x)], sin.input[1 - i]
                )
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
    rope: AnyRope | Mapping[str, AnyRope],
    *,
    length: int = 0,
    context: int = 0,
    position_ids: str = "position_ids",
    exact: bool = False,
) -> tuple[onnx.ModelProto, int]:
    """A copy of an exported model whose rotations are RotaryEmbedding with exact caches of `length`
    positions, and how many there were. What only computed cos and sin is removed.

    `rope`: the rotation that all of them have (rotary.Rope.from_pretrained, or a rope of
    rotary.Model), or, where the graph has several sources of cos and sin, one for each by the name
    of its cos; the error for one rope names them. `position_ids`: the name of an int64 value
    [batch, tokens] of the graph.

    A rope of rotary.Model keeps its recipe. If that depends on the context, `context` says how many
    positions are in use; without it, LongRoPE gets caches of both regimes, of which the largest
    position of a call chooses. A rotary.Rope has the frequencies that it was made with.

    ValueError if the graph has no rotation, an opset before 23, rotations of another pairing or
    rotary_dim, or of a type that RotaryEmbedding does not take; for dynamic NTK without `context`;
    and if cos and sin that the graph has, or computes of positions alone, are not those of the
    rope.

    exact: by rotary's own operator for onnxruntime (rotary.onnx.register), without `length`, from
    opset 10 on, also for float64, dynamic NTK by the largest position of a call, and ropes of
    several axes, whose position_ids are [axes, batch, tokens]."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if exact:
        operator.check_opset(opset, "replace")
        if length:
            raise ValueError(f"[replace] exact angles have no caches and no length, got {length}")
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
    sources = find_sources(result.graph, found)
    given = ropes_of(sources, rope)
    dtype = _type_of(graph, found, operator.TYPES if exact else TYPES)
    ropes = {
        name: regimes_of(each, context, length, "replace", any_context=exact)
        for name, each in given.items()
    }
    for source in sources:
        first = ropes[source.name].ropes[0]
        if first.frequencies.growth is not None:
            raise ValueError(
                "[replace] xPos scales q and k apart: a graph does not tell which is which"
            )
        for rotation in source.rotations:
            _check_node(rotation, first)
    probes = Probes(result, position_ids, graph.shape(position_ids) or ["tokens"])
    _check_sources(probes, sources, ropes, length, graph, each_given=isinstance(rope, Mapping))
    for i, source in enumerate(sources):
        if exact:
            pairs = ropes[source.name].ropes[0].frequencies.pairs
            _replace_exactly(graph, source, given[source.name], pairs, context, position_ids)
        else:
            prefix = "rotary" if i == 0 else f"rotary.{i}"
            _replace_by_caches(
                graph, source, ropes[source.name], length, dtype, position_ids, prefix
            )
    if exact and all(o.domain != operator.DOMAIN for o in result.opset_import):
        result.opset_import.append(operator.opset_id())
    remove_unused(result.graph)
    del result.graph.value_info[:]
    onnx.checker.check_model(result)
    return result, len(found)


def _check_sources(
    probes: Probes,
    sources: list[Source],
    ropes: dict[str, Regimes],
    length: int,
    graph: Graph,
    *,
    each_given: bool,
) -> None:
    """Raises ValueError if one of them is not its rope's, or, where that cannot be found out, if
    one rope is given for several."""
    for source in sources:
        candidates = ropes[source.name].candidates(NEAR, length or FAR)
        kind = graph.type_of(source.rotations[0].x)
        difference = check_source(probes, source, candidates, length or FAR, kind)
        if difference is None or (difference == "" and (each_given or len(sources) == 1)):
            continue
        words = f"cos and sin of {source.name!r} differ from the rope's {difference}"
        if len(sources) > 1:
            rule = f"give a rope for each source of cos and sin: {described(sources)}"
            words = f"{words}; {rule}" if difference else rule
        raise ValueError(f"[replace] {words}")


def _replace_by_caches(
    graph: Graph,
    source: Source,
    regimes: Regimes,
    length: int,
    dtype: str,
    position_ids: str,
    prefix: str,
) -> None:
    rotation = Rotation(regimes.ropes, length, dtype, "replace", regimes.switch, prefix)
    layout = regimes.ropes[0].layout
    rotation.layout = HeadLayout(rotation.rotary_dim, 0, layout.pairing, layout.pairing)
    rows, before = rotation.positions(position_ids)
    producer = graph.producers.get(position_ids)
    first = 0 if producer is None else list(graph.graph.node).index(producer) + 1
    for at, node in enumerate(before, first):
        graph.graph.node.insert(at, node)
    for each in source.rotations:
        (node,) = rotation.nodes(each.x, each.last.output[0], rows, head_dim=rotation.rotary_dim)
        if each.last.op_type == "RotaryEmbedding":  # keeps its attributes
            each.last.input[1:] = node.input[1:]
        else:
            each.last.CopyFrom(node)
    graph.graph.initializer.extend(rotation.tensors)


def _replace_exactly(
    graph: Graph, source: Source, rope: AnyRope, pairs: int, context: int, position_ids: str
) -> None:
    text = operator.rope_text(rope, context=context)
    for each in source.rotations:
        head = _head_dim(graph, each, 2 * pairs)
        node = operator.rotate_node(
            each.x, position_ids, each.last.output[0], operator.with_head_dim(text, head)
        )
        each.last.CopyFrom(node)


def _head_dim(graph: Graph, rotation: RotationNode, rotary_dim: int) -> int:
    """Of the value that is rotated; single operations rotate all of it."""
    last, shape = rotation.last, graph.shape(rotation.x)
    width = shape[-1] if shape else 0
    if last.op_type != "RotaryEmbedding":
        return rotary_dim
    heads = attribute_of(last, "num_heads") if shape and len(shape) == 3 else 1
    if not isinstance(width, int) or width <= 0 or heads <= 0 or width % heads:
        raise ValueError(
            f"[replace] the head_dim of {rotation.x!r} is not known: its shape is {shape}"
        )
    return width // heads


def _type_of(graph: Graph, found: list[RotationNode], types: dict[str, int]) -> str:
    kinds = {graph.type_of(rotation.x) for rotation in found}
    names = {number: name for name, number in types.items()}
    dtype = names.get(min(kinds)) if len(kinds) == 1 else None
    if dtype is None:
        words = ", ".join(TensorProto.DataType.Name(kind).lower() for kind in sorted(kinds))
        raise ValueError(f"[replace] rotations must be of one type of {list(types)}, got {words}")
    return dtype


def _check_node(rotation: RotationNode, rope: Rope) -> None:
    """Raises ValueError if a rotation of the graph cannot be that of the rope."""
    last, x, n = rotation.last, rotation.x, rotation.half
    interleaved = last.op_type == "RotaryEmbedding" and attribute_of(last, "interleaved") == 1
    pairing = "interleaved" if interleaved else "half"
    own, rotary_dim = rope.layout.pairing, 2 * rope.frequencies.pairs
    if pairing != own:
        raise ValueError(f"[replace] the graph pairs {x!r} as {pairing}, the rope as {own}")
    if n and 2 * n != rotary_dim:
        raise ValueError(f"[replace] {x!r} has {2 * n} rotary dims, the rope {rotary_dim}")
