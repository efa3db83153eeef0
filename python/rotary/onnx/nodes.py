# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of a rope as nodes of a graph: caches, positions, RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..rope import Rope

OPSET = 23  # the first with RotaryEmbedding
TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
MAX_BYTES = 2**31 - 1  # of a protobuf


def check_opset(opset: int, function: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    if not OPSET <= opset <= newest:
        raise ValueError(
            f"[{function}] opset must be {OPSET} to {newest}: RotaryEmbedding is of opset {OPSET}, "
            f"onnx {onnx.__version__} knows {newest}; got {opset}"
        )


def check_type(dtype: str, function: str) -> None:
    if dtype not in TYPES:
        raise ValueError(
            f"[{function}] RotaryEmbedding takes float32, float16 and bfloat16, got {dtype}"
        )


def check_rope(rope: Rope, function: str) -> None:
    axes = rope.frequencies.axes
    if axes != 1:
        raise ValueError(
            f"[{function}] RotaryEmbedding has one position for each token, got a rope of "
            f"{axes} axes"
        )
    if rope.frequencies.growth is not None:
        raise ValueError(f"[{function}] xPos scales q and k apart: RotaryEmbedding cannot")


class Rotation:
    """The nodes and tensors of a rope, or of two regimes of one.

    `ropes` differ in their frequencies alone; the caches of the second begin at row `length` and
    hold for calls that reach position `switch`. Names of its values begin with `prefix`."""

    def __init__(
        self,
        ropes: Sequence[Rope],
        length: int,
        dtype: str,
        function: str,
        switch: int = 0,
        prefix: str = "rotary",
    ) -> None:
        check_type(dtype, function)
        for rope in ropes:
            check_rope(rope, function)
        if length < 1:
            raise ValueError(f"[{function}] length must be at least 1, got {length}")
        self.layout = ropes[0].layout
        self.rotary_dim = 2 * ropes[0].frequencies.pairs
        self.length, self.switch, self.dtype, self.prefix = length, switch, dtype, prefix
        rows = length * len(ropes)
        width = 4 if dtype == "float32" else 2
        if rows * self.rotary_dim * width > MAX_BYTES:
            raise ValueError(
                f"[{function}] caches of {rows} positions take "
                f"{rows * self.rotary_dim * width} bytes, {MAX_BYTES} is the most of a file"
            )
        tables = [rope.cos_sin(0, tokens=length, dtype=dtype) for rope in ropes]
        self.tensors: list[TensorProto] = [
            numpy_helper.from_array(np.concatenate([table[i] for table in tables]), name)
            for i, name in enumerate((f"{prefix}.cos_cache", f"{prefix}.sin_cache"))
        ]

    def _constant(self, name: str, value: object) -> str:
        name = f"{self.prefix}.{name}"
        if all(tensor.name != name for tensor in self.tensors):
            self.tensors.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def positions(self, ids: str) -> tuple[str, list[onnx.NodeProto]]:
        """Rows of the caches for positions: themselves, or, with two regimes, those of the one
        that the largest position asks for."""
        if self.switch == 0:
            return ids, []
        switch = self._constant("switch", self.switch)
        offset = self._constant("offset", self.length)
        make, prefix = helper.make_node, self.prefix
        last, regime = f"{prefix}.last", f"{prefix}.regime"
        is_long, first = f"{prefix}.is_long", f"{prefix}.first_row"
        return f"{prefix}.rows", [
            make("ReduceMax", [ids], [last], keepdims=0),
            make("GreaterOrEqual", [last, switch], [is_long]),
            make("Cast", [is_long], [regime], to=TensorProto.INT64),
            make("Mul", [regime, offset], [first]),
            make("Add", [ids, first], [f"{prefix}.rows"]),
        ]

    def nodes(
        self, x: str, out: str, rows: str, *, head_dim: int, num_heads: int = 0
    ) -> list[onnx.NodeProto]:
        """x, [batch, heads, tokens, head_dim] or with num_heads [batch, tokens, hidden], to out."""
        layout, make = self.layout, helper.make_node
        caches = [f"{self.prefix}.cos_cache", f"{self.prefix}.sin_cache", rows]
        attributes = {"interleaved": int(layout.pairing == "interleaved")}
        if num_heads:
            attributes["num_heads"] = num_heads
        if layout.rotary_offset == 0 and layout.pairing == layout.output_pairing:
            if self.rotary_dim < head_dim:
                attributes["rotary_embedding_dim"] = self.rotary_dim
            return [make("RotaryEmbedding", [x, *caches], [out], **attributes)]
        # A slice inside the head, or one whose result has the other pairing: a tensor of its own.
        rest = head_dim - layout.rotary_offset - self.rotary_dim
        sizes = [size for size in (layout.rotary_offset, self.rotary_dim, rest) if size]
        parts = [f"{out}.part{i}" for i in range(len(sizes))]
        at = int(layout.rotary_offset > 0)
        rotated = f"{out}.rotated"
        found = []
        if len(parts) > 1:
            split = self._constant("split", sizes)
            found.append(make("Split", [x, split], parts, axis=-1))
        source = parts[at] if len(parts) > 1 else x
        found.append(make("RotaryEmbedding", [source, *caches], [rotated], **attributes))
        if layout.pairing != layout.output_pairing:
            pairs = np.arange(self.rotary_dim).reshape(
                (-1, 2) if layout.pairing == "interleaved" else (2, -1)
            )
            order = self._constant("order", pairs.T.reshape(-1))
            reordered = f"{out}.reordered"
            found.append(make("Gather", [rotated, order], [reordered], axis=-1))
            rotated = reordered
        parts[at] = rotated
        if len(parts) > 1:
            found.append(make("Concat", parts, [out], axis=-1))
        else:
            found.append(make("Identity", [rotated], [out]))
        return found
