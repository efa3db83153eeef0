# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.jax with JAX's default, integers and real numbers of 32 bits: a process of its own, which
test_default_types.py starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_rotate import DTYPES, ROPES, TOKENS, bits, data, expected, ids

import rotary


def test_is_the_default():
    assert not jax.config.jax_enable_x64
    assert jnp.asarray(np.int64(1)).dtype == jnp.int32


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ROPES)
def test_has_the_bits_of_numpy(name, dtype):
    rope, x, positions = ROPES[name], data(DTYPES[dtype]), ids()
    wanted = bits(expected(rope, x, positions))
    for at in (positions, positions.astype(np.int64), jnp.asarray(positions)):
        assert bits(rotary.jax.rotate(jnp.asarray(x), rope, at)) == wanted
    compiled = jax.jit(lambda x, at: rotary.jax.rotate(x, rope, at))
    assert bits(compiled(x, positions)) == wanted
    found = jax.vmap(lambda x, at: rotary.jax.rotate(x, rope, at))(x, positions)
    assert bits(found) == wanted


def test_gradient_is_the_adjoint():
    rope, x, positions = ROPES["half"], data(), ids().astype(np.int64)
    grads = jax.grad(lambda x: (rotary.jax.rotate(x, rope, positions) ** 2).sum())(jnp.asarray(x))
    assert grads.dtype == jnp.float32 and np.allclose(grads, 2 * x, atol=1e-5)


def test_float64_is_what_jax_makes_of_it():
    rope, x, positions = ROPES["half"], data(np.float64), ids()
    found = rotary.jax.rotate(x, rope, positions)
    assert bits(found) == bits(expected(rope, x.astype(np.float32), positions))


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (2**31, "got 2147483648"),
        (2**31 - TOKENS + 1, "got 2147483648"),  # of the last token
        (-(2**31) - 1, "got -2147483649"),
        (2**70, "got 1180591620717411303424"),
        (np.arange(TOKENS) + 2**31 - 2, "got 2147483655"),
        (np.arange(TOKENS) + 2**32, "got 4294967296"),  # which would be 0, 1, ...
        (np.full(TOKENS, 2**31, np.uint32), "got 2147483648"),
        (jnp.zeros(TOKENS, jnp.uint32), "positions of uint32 need jax_enable_x64"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_positions_that_would_wrap(positions, message, traced):
    def rotate(x):
        return rotary.jax.rotate(x, ROPES["half"], positions)

    with pytest.raises(ValueError, match=r"^\[rotary\.jax\] positions .* jax_enable_x64") as error:
        (jax.jit(rotate) if traced else rotate)(data())
    assert message in str(error.value)


def test_last_position_of_32_bits():
    rope, x = ROPES["half"], data()
    rows = np.tile(np.arange(2**31 - TOKENS, 2**31), (len(x), 1))
    for positions in (2**31 - TOKENS, rows, rows.astype(np.uint32)):
        assert bits(rotary.jax.rotate(x, rope, positions)) == bits(expected(rope, x, rows))
