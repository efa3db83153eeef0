# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The modules of a model that make cos and sin."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .shapes import POSITION_SHAPES

_CLASS_NAME = re.compile(r"(Rotary|RoPE|Rope)\w*Embed")
BATCH, TOKENS = 2, 5


@dataclass(frozen=True)
class Table:
    """cos and sin as a rotary module gives them for some positions."""

    path: str
    layer_type: str | None
    cos: Tensor
    sin: Tensor
    positions: Tensor
    #: One of POSITION_SHAPES, or "pixels" where an image takes their place.
    shape: str
    is_complex: bool

    @property
    def name(self) -> str:
        return f"{self.path}[{self.layer_type}]" if self.layer_type else self.path


def frequency_buffers(module: nn.Module) -> dict[str | None, str]:
    """Names of the inverse frequencies in use, by layer type (None where there is but one)."""
    found: dict[str | None, str] = {}
    for name, _ in module.named_buffers(recurse=False):
        if name == "inv_freq":
            found[None] = name
        elif name.endswith("_inv_freq") and not name.endswith("original_inv_freq"):
            found[name.removesuffix("_inv_freq")] = name
    return found


def rotary_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that hold inverse frequencies or are named after the rotation."""
    for path, module in model.named_modules():
        if frequency_buffers(module) or _CLASS_NAME.search(type(module).__name__):
            yield path, module


def _takes(module: nn.Module, parameter: str) -> bool:
    return parameter in inspect.signature(type(module).forward).parameters


def makes_tables(module: nn.Module) -> bool:
    """Whether it makes cos and sin of positions, or of the size of an image."""
    return _takes(module, "position_ids") or _takes(module, "pixel_values")


def probe_positions(shape: str, low: int = 0, high: int = 64) -> Tensor:
    """Positions of that shape, the same every time."""
    sizes = [{"b": BATCH, "t": TOKENS}.get(letter) or int(letter) for letter in shape]
    generator = torch.Generator().manual_seed(3)
    return torch.randint(low, high, tuple(sizes), generator=generator)


def _image(module: nn.Module) -> Tensor:
    """An image of a row of patches, one for each token."""
    size = getattr(getattr(module, "config", None), "patch_size", 16)
    return torch.zeros(1, 3, size, TOKENS * size)


def _call(module: nn.Module, positions: Tensor, layer_type: str | None) -> Any:
    buffer = next((b for b in module.buffers(recurse=False)), torch.empty(0))
    if _takes(module, "pixel_values"):
        return module.forward(torch.zeros(positions.shape, device=buffer.device))
    x = torch.zeros(1, 1, 1, device=buffer.device)
    more = (layer_type,) if layer_type is not None and _takes(module, "layer_type") else ()
    return module.forward(x, positions.to(buffer.device), *more)


def _cos_sin(result: Any) -> tuple[Tensor, Tensor] | None:
    """Two tensors of [tokens, columns] or [batch or 1, tokens, columns], if that is what it is."""
    if isinstance(result, Tensor) and result.is_complex():
        result = (result.real, result.imag)
    if not isinstance(result, tuple) or len(result) != 2:
        return None
    sizes = [x.shape for x in result if isinstance(x, Tensor)]
    if len(sizes) != 2 or sizes[0] != sizes[1] or len(sizes[0]) not in (2, 3):
        return None
    batched = len(sizes[0]) == 3
    if sizes[0][-2] != TOKENS or (batched and sizes[0][0] not in (1, BATCH)):
        return None
    return result


@torch.no_grad()
def table_of(path: str, module: nn.Module, layer_type: str | None) -> Table | None:
    """What the module makes of positions, of the first shape that gives the widest table: a shape
    that is not meant may go through and leave axes out."""
    best = None
    for shape in POSITION_SHAPES if _takes(module, "position_ids") else ("pixels",):
        positions = _image(module) if shape == "pixels" else probe_positions(shape)
        try:
            result = _call(module, positions, layer_type)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue
        pair = _cos_sin(result)
        if pair is not None and (best is None or pair[0].shape[-1] > best.cos.shape[-1]):
            cos, sin = (x.float().cpu() for x in pair)
            is_complex = not isinstance(result, tuple)
            best = Table(path, layer_type, cos, sin, positions, shape, is_complex)
    return best


def layer_types(module: nn.Module) -> list[str | None]:
    """The layer types that have a table of their own; [None] where one table serves all."""
    return list(frequency_buffers(module)) or [None]
