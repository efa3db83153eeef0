# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotary modules whose cos and sin are of exact angles."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._library import ops
from .tables import Table

Columns = Callable[[Tensor], Tensor]

#: Exact cos and sin may differ that much from the model's own, at positions below 64: float32
#: products of angles up to 64 rad.
_TOLERANCE = 2e-5


def model_rope(module: nn.Module, config: Any, layer_type: str | None) -> Any:
    """The rotary.ModelRope of a rotary module, from its config."""
    from rotary.model import load_model

    found = load_model(getattr(module, "config", None) or config)
    names = [rope.name for rope in found.ropes]
    if layer_type is not None and layer_type in names:
        return found.rope(layer_type)
    return found.rope("")


def _text(frequencies: Any, sign: int) -> str:
    pairs = len(frequencies.values)
    fields = {
        "head_dim": 2 * pairs,
        "pairing": "half",
        "axes": frequencies.axes,
        "frequencies": [sign * float(f) for row in frequencies.values for f in row],
        "scale": frequencies.scale,
    }
    return json.dumps(fields)


def _as_positions(ids: Tensor, shape: str) -> Tensor:
    """[batch, tokens] or [axes, batch, tokens]."""
    if shape[0] not in "bt":
        return ids if len(shape) == 3 else ids.unsqueeze(0)
    if shape[-1] == "t":
        return ids
    ids = ids.movedim(-1, 0)
    return ids if ids.dim() == 3 else ids.unsqueeze(1)


def cos_sin(text: str, pairs: int, ids: Tensor, shape: str) -> tuple[Tensor, Tensor]:
    """[batch, tokens, pairs] each, float32: what the kernel makes of the vectors (1, 0)."""
    positions = _as_positions(ids, shape)
    batch, tokens = positions.shape[-2:]
    unit = torch.cat([positions.new_ones(pairs), positions.new_zeros(pairs)]).float()
    x = unit.expand(batch, tokens, 1, 2 * pairs)
    rotated = ops.rotate.default([x], text, positions, None, 0, -3)[0].squeeze(-2)
    return rotated[..., :pairs], rotated[..., pairs:]


def _halves(x: Tensor) -> Tensor:
    return torch.cat([x, x], -1)


def _doubled(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, -1)


def _single(x: Tensor) -> Tensor:
    return x


def _agrees(cos: Tensor, sin: Tensor, table: Table) -> bool:
    if cos.shape[-1] != table.cos.shape[-1]:
        return False
    cos, sin = cos.reshape(table.cos.shape), sin.reshape(table.sin.shape)
    return bool(
        (cos - table.cos).abs().max() < _TOLERANCE and (sin - table.sin).abs().max() < _TOLERANCE
    )


class ExactTables:
    """The forward of a rotary module, of exact angles: cos and sin in float32, whatever x is.

    Holds texts and no tensors, so that casts, copies and devices leave it as it is."""

    def __init__(self, tables: list[Table]) -> None:
        self.ropes: dict[str | None, tuple[str, int, Columns]] = {}
        self.shape = tables[0].shape
        self.is_complex = tables[0].is_complex
        self.rank = tables[0].cos.dim()

    def __call__(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        text, pairs, columns = self.ropes[layer_type if layer_type in self.ropes else None]
        cos, sin = cos_sin(text, pairs, position_ids.to(x.device), self.shape)
        if self.rank == 2:
            cos, sin = cos.squeeze(0), sin.squeeze(0)
        return torch.complex(cos, sin) if self.is_complex else (columns(cos), columns(sin))


def _exact_tables(module: nn.Module, config: Any, tables: list[Table]) -> ExactTables:
    """For a rotary module. Raises ValueError where its angles are not the config's."""
    from rotary.rope import depends_on_context

    made = ExactTables(tables)
    for table in tables:
        if table.shape == "pixels":
            raise ValueError(
                f"[patch] {table.name}: it makes cos and sin of an image, and "
                f'angles="exact" is for positions. Nothing was replaced'
            )
        rope = model_rope(module, config, table.layer_type)
        if depends_on_context(rope.recipe):
            raise ValueError(
                f"[patch] {table.name}: its frequencies depend on the length, and "
                f'angles="exact" is for those that do not. Nothing was replaced'
            )
        frequencies = rope.make_frequencies()
        made.ropes[table.layer_type] = _rope(frequencies, table)
    return made


def _rope(frequencies: Any, table: Table) -> tuple[str, int, Columns]:
    """The rope of the model's table and how it lays out a row. Holds the exact table against the
    model's own. Angles of the other sign belong to a function that rotates backward."""
    pairs = len(frequencies.values)
    for sign in (1, -1):
        text = _text(frequencies, sign)
        cos, sin = cos_sin(text, pairs, table.positions, table.shape)
        for columns in (_halves, _doubled, _single):
            if _agrees(columns(cos), columns(sin), table):
                return text, pairs, columns
    raise ValueError(
        f"[patch] {table.name}: cos and sin are not those of the model's config; "
        f"rotary.torch.check(model) says more. Nothing was replaced"
    )


def prepare(model: nn.Module, tables: list[Table]) -> dict[str, tuple[nn.Module, ExactTables]]:
    """A forward of exact angles for each rotary module, checked. Nothing is replaced yet."""
    by_path: dict[str, list[Table]] = {}
    for table in tables:
        by_path.setdefault(table.path, []).append(table)
    if not by_path:
        raise ValueError(
            '[patch] angles="exact" needs a module that makes cos and sin of positions, and the '
            "model has none. Nothing was replaced"
        )
    methods = {}
    for path, own in by_path.items():
        module = model.get_submodule(path)
        attribute(module, path)
        methods[path] = (module, _exact_tables(module, getattr(model, "config", None), own))
    return methods


def attribute(module: nn.Module, path: str) -> str:
    """The attribute that holds the module's forward: another if a library wraps it (accelerate)."""
    own = vars(module)
    if "forward" not in own:
        return "forward"
    original = type(module).forward
    held = [n for n, v in own.items() if getattr(v, "__func__", None) is original]
    if not held:
        raise ValueError(
            f"[patch] {path} ({type(module).__name__}): the module has a forward of its own. "
            f"Nothing was replaced"
        )
    return held[0]


def install(module: nn.Module, path: str, tables: ExactTables) -> None:
    object.__setattr__(module, attribute(module, path), tables)


def undo(module: nn.Module) -> None:
    for name in [n for n, v in vars(module).items() if isinstance(v, ExactTables)]:
        del vars(module)[name]
        if name != "forward":
            object.__setattr__(module, name, types.MethodType(type(module).forward, module))
