# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""vLLM's kernel for rotation by a cos/sin table, by rotary."""

from __future__ import annotations

import functools
import json
import weakref

import torch
from torch import Tensor

from rotary.torch import rotate_by_table_

_NAME = "rotary_embedding"
_library: torch.library.Library | None = None  # keeps the replacement alive


@functools.cache
def _layout(head_size: int, rotary_dim: int, offset: int, is_neox: bool) -> str:
    """A rope of this layout; its frequencies are not used."""
    fields = {
        "head_dim": head_size,
        "rotary_dim": rotary_dim,
        "rotary_offset": offset,
        "pairing": "half" if is_neox else "interleaved",
        "theta": 10000.0,
    }
    return json.dumps(fields)


_halves: tuple[weakref.ref[Tensor], Tensor, Tensor] | None = None


def _cos_and_sin(cos_sin_cache: Tensor) -> tuple[Tensor, Tensor]:
    """The halves of vLLM's table. Those of the last one are kept, as views: all layers of a model
    have the same, and making views costs as much as a rotation of one token."""
    global _halves
    if _halves is None or _halves[0]() is not cos_sin_cache:
        _halves = (weakref.ref(cos_sin_cache), *cos_sin_cache.chunk(2, -1))
    return _halves[1:]


def rotary_embedding(
    positions: Tensor,
    query: Tensor,
    key: Tensor | None,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox: bool,
    rope_dim_offset: int = 0,
    inverse: bool = False,
) -> None:
    """`_C::rotary_embedding`: in place; query and key are [tokens, heads * head_size] or [tokens,
    heads, head_size], with any number of dims for tokens; cos_sin_cache is [rows, cos | sin]."""
    rotary_dim = cos_sin_cache.shape[-1]
    cos, sin = _cos_and_sin(cos_sin_cache)
    if positions.dim() != 1:
        positions = positions.reshape(-1)
    heads = (positions.shape[0], -1, head_size)
    tensors = [query.view(heads)] if key is None else [query.view(heads), key.view(heads)]
    rotate_by_table_(
        *tensors,
        cos=cos,
        sin=sin,
        rope=_layout(head_size, rotary_dim, rope_dim_offset, is_neox),
        positions=positions,
        inverse=inverse,
    )


def replace_kernel() -> str:
    """For the device of this vLLM, which is returned. Once; graph passes that look for the operator
    keep finding it, since its name stays."""
    global _library
    import vllm._custom_ops  # noqa: F401  (loads the operator)
    from vllm.platforms import current_platform

    device = current_platform.dispatch_key
    if _library is None:
        if not hasattr(torch.ops._C, _NAME):
            raise ImportError(f"[rotary_vllm] this vLLM has no operator _C::{_NAME}")
        library = torch.library.Library("_C", "IMPL")
        library.impl(_NAME, rotary_embedding, device, allow_override=True)
        _library = library
    return device
