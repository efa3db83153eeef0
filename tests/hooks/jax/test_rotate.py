# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.jax against rotary on NumPy arrays, under JAX's transformations, and its gradients: on
JAX's default device, which is the one of ROTARY_HOOK_DEVICE."""

import functools
import os
import threading

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from jax.test_util import check_grads

import rotary

BATCH, TOKENS, HEADS, HEAD = 3, 10, 4, 32
ROPES = {
    "half": rotary.Rope(head_dim=HEAD, theta=1e4, pairing="half"),
    "interleaved": rotary.Rope(head_dim=HEAD, theta=1e4, pairing="interleaved"),
    "partial": rotary.Rope(
        head_dim=HEAD, rotary_dim=16, rotary_offset=8, theta=1e4, pairing="half"
    ),
    "yarn": rotary.Rope(
        head_dim=HEAD, theta=1e4, pairing="half",
        scaling=rotary.Yarn(factor=4, original_context=4096),
    ),
    "reads one, writes the other": rotary.Rope(
        head_dim=HEAD, theta=1e4, pairing="interleaved", output_pairing="half"
    ),
    "reference": rotary.Rope(head_dim=HEAD, theta=1e4, pairing="half", precision="reference"),
}  # fmt: skip
BACKEND = {"cpu": "cpu", "cuda": "gpu"}[os.environ.get("ROTARY_HOOK_DEVICE", "cpu")]
DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def data(dtype=np.float32, shape=(BATCH, TOKENS, HEADS, HEAD), seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def ids(seed=1):
    """Positions of every row of the batch, far ones among them."""
    return np.random.default_rng(seed).integers(-5, 1 << 20, (BATCH, TOKENS)).astype(np.int32)


def expected(rope, x, positions):
    rows = [rope.rotate(row, positions=at) for row, at in zip(x, positions, strict=True)]
    return np.stack(rows)


def bits(x):
    return np.asarray(x).tobytes()


def test_default_device():
    assert jax.default_backend() == BACKEND
    found = rotary.jax.rotate(data(), ROPES["half"], ids())
    assert [device.platform for device in found.devices()] == [BACKEND]


@pytest.mark.parametrize("platform", sorted({BACKEND, "cpu"}))
def test_follows_its_array(platform):
    """A process with a GPU has calls for both."""
    rope, x, positions = ROPES["half"], data(), ids()
    device = jax.devices(platform)[0]
    found = rotary.jax.rotate(jax.device_put(x, device), rope, positions)
    assert found.devices() == {device}
    assert bits(found) == bits(expected(rope, x, positions))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROPES)
def test_has_the_bits_of_numpy(name, dtype):
    rope, x, positions = ROPES[name], data(DTYPES[dtype]), ids()
    found = rotary.jax.rotate(jnp.asarray(x), rope, positions)
    assert found.dtype == dtype and found.shape == x.shape
    assert bits(found) == bits(expected(rope, x, positions))
    compiled = jax.jit(lambda x, at: rotary.jax.rotate(x, rope, at))
    assert bits(compiled(x, positions)) == bits(found)


def test_positions():
    rope, x = ROPES["half"], data()
    rows = np.tile(np.arange(7, 7 + TOKENS), (BATCH, 1))
    wanted = bits(expected(rope, x, rows))
    shared = jnp.arange(7, 7 + TOKENS)
    for positions in (7, jnp.int32(7), shared, shared.astype(jnp.int16), rows, rows[:1]):
        assert bits(rotary.jax.rotate(x, rope, positions)) == wanted
    # A step of decoding: the position is traced, so that one program serves all steps.
    step = jax.jit(lambda x, first: rotary.jax.rotate(x, rope, first))
    assert bits(step(x, 7)) == wanted
    assert bits(step(x, 8)) == bits(expected(rope, x, rows + 1))
    assert step._cache_size() == 1
    far = rows + 2**31 + 5  # beyond int32, as NumPy and JAX with 64 bits have them
    for positions in (7 + 2**31 + 5, far, far.astype(np.uint32), jnp.asarray(far, jnp.uint32)):
        assert bits(rotary.jax.rotate(x, rope, positions)) == bits(expected(rope, x, far))
    # More leading dims, and none.
    assert bits(rotary.jax.rotate(x[None, :, None], rope, 7)) == wanted
    assert bits(rotary.jax.rotate(x[0], rope, 7)) == bits(expected(rope, x[:1], rows[:1]))


def test_several_axes():
    rope = rotary.Rope(
        head_dim=HEAD, theta=1e4, pairing="half", axes=rotary.Mrope(sections=(4, 6, 6))
    )
    x = data()
    positions = np.random.default_rng(5).integers(0, 999, (3, BATCH, TOKENS)).astype(np.int32)
    wanted = bits(rope.rotate(x, positions=positions))
    assert bits(rotary.jax.rotate(x, rope, positions)) == wanted
    shared = bits(rope.rotate(x, positions=positions[:, 0]))
    assert bits(rotary.jax.rotate(x, rope, positions[:, 0])) == shared
    with pytest.raises(ValueError, match=r"must fit \[3, 3, 10\], got \[3, 10, 10\]"):
        rotary.jax.rotate(x, rope, np.zeros((3, 10, 10), np.int32))


@pytest.mark.parametrize("name", ROPES)
def test_gradients(name):
    rope, x, positions = ROPES[name], jnp.asarray(data(np.float64)), jnp.asarray(ids() % 4096)

    def function(x):
        return jnp.sin(rotary.jax.rotate(x, rope, positions)).sum()

    # The transpose of a linear map: <rotate(x), y> = <x, adjoint(y)>.
    y = jnp.asarray(data(np.float64, seed=9))
    rotated, pull = jax.vjp(lambda x: rotary.jax.rotate(x, rope, positions), x)
    assert np.allclose((rotated * y).sum(), (x * pull(y)[0]).sum(), rtol=1e-12)
    # Finite differences, first and second order.
    small = (slice(0, 1), slice(0, 2), slice(0, 1))
    check_grads(
        lambda part: jnp.sin(rotary.jax.rotate(part, rope, positions[:1, :2])).sum(),
        (x[small],),
        order=2,
        modes=["rev"],
        rtol=1e-4 if name != "reference" else 1e-3,
    )
    assert jax.jit(jax.grad(function))(x).shape == x.shape


def test_gradient_is_that_of_the_formula():
    rope, x, positions = ROPES["half"], jnp.asarray(data()), jnp.asarray(ids() % 64)
    frequencies = jnp.asarray(rope.frequencies.values[:, 0], jnp.float32)

    def formula(x):
        angles = (positions[..., None] * frequencies)[:, :, None]
        a, b = jnp.split(x, 2, axis=-1)
        c, s = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([a * c - b * s, a * s + b * c], axis=-1)

    def loss(rotate):
        return lambda x: (jnp.tanh(rotate(x)) ** 3).sum()

    ours = jax.grad(loss(lambda x: rotary.jax.rotate(x, rope, positions)))(x)
    assert np.allclose(ours, jax.grad(loss(formula))(x), atol=1e-4)


def test_vmap():
    rope, x, positions = ROPES["partial"], data(), ids()
    wanted = bits(expected(rope, x, positions))
    rotate = lambda x, at: rotary.jax.rotate(x, rope, at)  # noqa: E731
    assert bits(jax.vmap(rotate)(x, positions)) == wanted
    # Shared positions; a batch in another dim; two at once, one of them of positions alone.
    first = expected(rope, x, np.tile(positions[0], (BATCH, 1)))
    assert bits(jax.vmap(rotate, (0, None))(x, positions[0])) == bits(first)
    last = jax.vmap(rotate, (1, 0), 1)(np.moveaxis(x, 0, 1), positions)
    assert bits(np.moveaxis(last, 1, 0)) == wanted
    both = jax.vmap(lambda at: jax.vmap(rotate, (0, None))(x, at))(positions)
    for row, at in zip(both, positions, strict=True):
        assert bits(row) == bits(expected(rope, x, np.tile(at, (BATCH, 1))))
    grads = jax.vmap(jax.grad(lambda x, at: rotate(x, at).sum()))(x, positions)
    assert bits(grads) == bits(jax.grad(lambda x: rotate(x, positions).sum())(x))


def test_many_calls_in_one_program():
    """On a GPU XLA captures them into a graph, which it updates when a buffer moves."""
    rope, x = ROPES["half"], data()

    @jax.jit
    def layers(x, at):
        for _ in range(8):
            x = rotary.jax.rotate(2 * x, rope, at)
        return x

    kept = []  # so that results are in other memory
    for first in (0, 1 << 20, 77, 5):
        positions = np.tile(np.arange(first, first + TOKENS, dtype=np.int32), (BATCH, 1))
        wanted = x
        for _ in range(8):
            wanted = expected(rope, 2 * wanted, positions)
        kept.append(layers(x, positions))
        assert bits(kept[-1]) == bits(wanted)


def test_shard_map():
    """Each of four devices rotates its heads, or its rows, alone. With GPUs there may be one."""
    rope = ROPES["interleaved"]
    x, positions = data(shape=(4, TOKENS, HEADS, HEAD)), np.tile(np.arange(TOKENS), (4, 1))
    wanted = bits(expected(rope, x, positions))
    count = 4 if BACKEND == "cpu" or len(jax.devices()) >= 4 else 1
    assert len(jax.devices()) >= count
    mesh = jax.make_mesh((count,), ("d",), axis_types=(AxisType.Auto,))
    for part in (PartitionSpec(None, None, "d"), PartitionSpec("d")):
        rows = PartitionSpec("d") if part == PartitionSpec("d") else PartitionSpec()

        @jax.jit
        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(part, rows), out_specs=part)
        def rotate(x, at):
            return rotary.jax.rotate(x, rope, at)

        assert bits(rotate(x, positions)) == wanted
        loss = lambda x: (rotate(x, positions) ** 2).sum()  # noqa: E731
        assert np.allclose(jax.jit(jax.grad(loss))(x), 2 * x, atol=1e-5)  # rotations keep norms


def test_scan():
    """Layers, and decoding steps with the position as a carry; gradients through both."""
    rope, x, positions = ROPES["half"], data(), ids()
    scales = jnp.asarray([0.5, 2.0, 1.25], jnp.float32)  # exact in float32, as powers are not

    def layers(x):
        step = lambda x, scale: (rotary.jax.rotate(scale * x, rope, positions), None)  # noqa: E731
        return jax.lax.scan(step, x, scales)[0]

    wanted = x
    for scale in np.asarray(scales):
        wanted = expected(rope, scale * wanted, positions)
    assert bits(jax.jit(layers)(x)) == bits(wanted)
    grads = jax.jit(jax.grad(lambda x: (layers(x) ** 2).sum()))(x)
    assert np.allclose(grads, 2 * 1.25**2 * x, rtol=1e-5, atol=1e-5)  # rotations keep norms

    @jax.jit
    def decode(first, x):
        def step(at, x):
            return at + 1, rotary.jax.rotate(x, rope, at)

        return jax.lax.scan(step, first, x)

    tokens = data(shape=(6, 1, HEADS, HEAD), seed=4)
    last, found = decode(jnp.int32(1 << 20), tokens)
    at = np.arange(1 << 20, (1 << 20) + 6, dtype=np.int32)[:, None]
    assert int(last) == (1 << 20) + 6 and bits(found) == bits(expected(rope, tokens, at))


def test_checkpoint():
    """Rematerialised, with the same gradients, also inside of a scan."""
    rope, x, positions = ROPES["yarn"], data(), ids() % 4096

    def loss(wrap):
        block = wrap(lambda x: jnp.tanh(rotary.jax.rotate(x, rope, positions)))

        def layers(x):
            x = block(block(x))
            return (jax.lax.scan(lambda x, _: (block(x), None), x, length=2)[0] ** 3).sum()

        return jax.jit(jax.value_and_grad(layers))

    plain, again = loss(lambda f: f)(x), loss(jax.checkpoint)(x)
    assert np.allclose(plain[0], again[0], rtol=1e-6)
    assert np.allclose(plain[1], again[1], rtol=1e-5, atol=1e-7)
    traced = str(jax.make_jaxpr(loss(jax.checkpoint))(x))
    assert traced.count("ffi_call") > str(jax.make_jaxpr(loss(lambda f: f))(x)).count("ffi_call")


def test_donation():
    """A donated array is rotated in its own memory; one that is used again is not changed."""
    rope, x, positions = ROPES["half"], data(), ids()
    wanted = bits(expected(rope, x, positions))
    rotate = jax.jit(
        lambda x: rotary.jax.rotate(x, rope, positions, in_place=True), donate_argnums=0
    )
    given = jnp.array(x)
    address = given.unsafe_buffer_pointer()
    found = rotate(given)
    assert found.unsafe_buffer_pointer() == address and given.is_deleted()
    assert bits(found) == wanted
    kept = jnp.array(x)
    both = jax.jit(lambda x: (rotary.jax.rotate(x, rope, positions, in_place=True), x + 0))(kept)
    assert bits(both[0]) == wanted and bits(both[1]) == bits(x) and bits(kept) == bits(x)


def test_large_and_empty_arrays():
    rope = ROPES["half"]
    x = data(shape=(1, 4096, 8, HEAD))
    assert bits(rotary.jax.rotate(x, rope, 0)) == bits(rope.rotate(x))
    for shape in ((0, 4, 2, HEAD), (2, 0, 2, HEAD), (2, 4, 0, HEAD)):
        assert rotary.jax.rotate(jnp.zeros(shape), rope, 0).shape == shape


def test_from_several_threads():
    rope, x = ROPES["half"], data(shape=(1, 2048, 8, HEAD))
    wanted, found = bits(rope.rotate(x)), [None] * 4
    rotate = jax.jit(lambda x: rotary.jax.rotate(x, rope, 0))

    def run(i):
        found[i] = [bits(rotate(x)) for _ in range(8)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[wanted] * 8] * 4


XPOS = rotary.Rope(head_dim=HEAD, theta=1e4, pairing="half", scaling=rotary.Xpos())


@pytest.mark.parametrize(
    ("x", "rope", "positions", "message"),
    [
        (data(shape=(4, 32)), ROPES["half"], 0, r"x must be \[..., tokens, heads, 32\]"),
        (data(shape=(4, 2, 16)), ROPES["half"], 0, r"got \[4, 2, 16\]"),
        (np.ones((4, 2, 32), np.int32), ROPES["half"], 0, "got int32"),
        (data(), ROPES["half"], 0.5, "positions must be integers, got float"),
        (data(), ROPES["half"], np.arange(9), r"positions must fit \[3, 10\], got \[9\]"),
        (data(), ROPES["half"], np.zeros((2, 10), int), r"got \[2, 10\]"),
        (data(), XPOS, 0, "xPos is not supported"),
    ],
    ids=["rank", "head_dim", "type", "real positions", "tokens", "batch", "xpos"],
)
def test_rejects(x, rope, positions, message):
    with pytest.raises(ValueError, match=r"^\[rotary.jax\]") as error:
        rotary.jax.rotate(x, rope, positions)
    error.match(message)
