# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The call and its derivative."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..rope import Rope
from .library import TARGET, register

register()

TYPES = ("float32", "float64", "float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Call:
    """What of a call is known when it is traced; hashable."""

    frequencies: tuple[float, ...]  # [pairs, axes]
    axes: int
    head_dim: int
    rotary_offset: int
    pairing: int  # 1: half
    output_pairing: int
    precision: int  # 1: reference
    scale: float
    op: int = 0  # 0: rotate, 1: adjoint
    in_place: bool = False

    @staticmethod
    @functools.lru_cache(256)
    def of(rope: Rope, in_place: bool) -> Call:
        frequencies, layout = rope.frequencies, rope.layout
        if frequencies.growth is not None:
            raise ValueError("[rotary.jax] xPos is not supported")
        return Call(
            frequencies=tuple(float(f) for f in frequencies.values.reshape(-1)),
            axes=frequencies.axes,
            head_dim=layout.head_dim,
            rotary_offset=layout.rotary_offset,
            pairing=int(layout.pairing == "half"),
            output_pairing=int(layout.output_pairing == "half"),
            precision=int(rope.precision == "reference"),
            scale=frequencies.scale,
            in_place=in_place,
        )

    def transposed(self) -> Call:
        return dataclasses.replace(self, op=1 - self.op)

    def attributes(self) -> dict[str, Any]:
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("in_place", "frequencies", "scale")
        }
        whole = {name: np.int64(value) for name, value in fields.items()}
        return {
            **whole,
            "frequencies": np.asarray(self.frequencies, np.float64),
            "scale": np.float64(self.scale),
        }


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def apply(call: Call, x: jax.Array, positions: jax.Array) -> jax.Array:
    """x [..., tokens, heads, head_dim] and positions [..., tokens], or [..., axes, tokens]."""
    function = jax.ffi.ffi_call(
        TARGET,
        # The type of x; inside shard_map, varying over the axes over which x or positions vary.
        jax.eval_shape(lambda x, at: x + at.sum().astype(x.dtype), x, positions),
        vmap_method="broadcast_all",
        input_output_aliases={0: 0} if call.in_place else None,
    )
    return function(x, positions, **call.attributes())


def apply_forward(call: Call, x: jax.Array, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
    return apply(call, x, positions), positions


def apply_backward(call: Call, positions: jax.Array, grad: jax.Array) -> tuple[jax.Array, Any]:
    """The gradient of a rotation is its transpose; positions are integers and have none."""
    return apply(call.transposed(), grad, positions), None


apply.defvjp(apply_forward, apply_backward)


def rotate(x: jax.Array, rope: Rope, positions: Any = 0, *, in_place: bool = False) -> jax.Array:
    """x, [..., tokens, heads, head_dim] of float32, float64, float16 or bfloat16, rotated.

    `positions`: the position of the first token (an int, or a traced scalar), or an array of
    integers [tokens] or [..., tokens]; of a rope of several axes, [axes, tokens] or
    [axes, ..., tokens]. Differentiable in x, to any order in reverse mode. Without jax_enable_x64
    positions are of 32 bits: ValueError for others that are known when the call is traced.

    in_place: the result takes the memory of x. XLA copies x first where that is still needed: of
    use for arrays that are donated, or that the program computed and does not use again."""
    x = jnp.asarray(x)
    call = Call.of(rope, in_place)
    if x.ndim < 3 or x.shape[-1] != call.head_dim:
        raise ValueError(
            f"[rotary.jax] x must be [..., tokens, heads, {call.head_dim}], got {list(x.shape)}"
        )
    if x.dtype.name not in TYPES:
        raise ValueError(f"[rotary.jax] x must be of {', '.join(TYPES)}, got {x.dtype.name}")
    return apply(call, x, token_positions(positions, x.shape[:-2], call.axes))


def check_range(positions: Any, tokens: int) -> None:
    """Without jax_enable_x64 JAX has integers of 32 bits, and would wrap others silently. Raises
    ValueError."""
    if jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
        return
    if isinstance(positions, jax.Array):
        if positions.dtype == jnp.uint32:
            raise ValueError("[rotary.jax] positions of uint32 need jax_enable_x64")
        return
    values = np.asarray(positions)
    if values.dtype.kind not in "iuO" or values.size == 0:
        return
    last = int(values.max()) + (tokens - 1 if values.ndim == 0 else 0)
    for value in (int(values.min()), last):
        if not -(2**31) <= value < 2**31:
            raise ValueError(
                f"[rotary.jax] positions beyond int32 need jax_enable_x64, got {value}"
            )


def token_positions(positions: Any, shape: tuple[int, ...], axes: int) -> jax.Array:
    """Positions of every token of [..., tokens], with several axes as [..., axes, tokens]."""
    check_range(positions, shape[-1])
    ids = jnp.asarray(positions)
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"[rotary.jax] positions must be integers, got {ids.dtype.name}")
    if ids.dtype.name not in ("int32", "int64"):
        wide = ids.dtype.itemsize > 2 and jax.dtypes.canonicalize_dtype(np.int64) == np.int64
        ids = ids.astype(jnp.int64 if wide else jnp.int32)
    if ids.ndim == 0:
        ids = ids + jnp.arange(shape[-1], dtype=ids.dtype)
        ids = ids if axes == 1 else jnp.broadcast_to(ids, (axes, shape[-1]))
    wanted = list(shape) if axes == 1 else [axes, *shape]
    own = ids.shape if axes == 1 else ids.shape[1:]
    if (axes > 1 and ids.shape[:1] != (axes,)) or own[-1:] != shape[-1:] or len(own) > len(shape):
        raise ValueError(f"[rotary.jax] positions must fit {wanted}, got {list(ids.shape)}")
    try:
        if axes == 1:
            return jnp.broadcast_to(ids, shape)
        # [axes, ..., tokens] with the leading dims that are missing.
        missing = (1,) * (len(shape) - len(own))
        full = jnp.broadcast_to(ids.reshape(axes, *missing, *own), (axes, *shape))
    except ValueError:
        raise ValueError(
            f"[rotary.jax] positions must fit {wanted}, got {list(ids.shape)}"
        ) from None
    return jnp.moveaxis(full, 0, -2)
