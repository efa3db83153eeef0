# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.jax against jax.jit of the plain formula, on JAX's default device:

    python bench/jax/bench_rotation.py [--repeats N]

The formula computes angles in float32, or takes cos and sin from a table; it rotates in float32 and
rounds to the type of x. q and k, of 32 heads each, are rotated in one program: forward, and the
pullback of a cotangent. Medians of interleaved runs. On a GPU a prefill has eight times the tokens,
and a run is 20 calls, of which only the last is waited for; a copy of q and k is timed, too."""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import rotary

HEAD, THETA = 128, 500000.0
ON_GPU = jax.default_backend() == "gpu"
CALLS = 20 if ON_GPU else 1
#        name: (batch, tokens, heads)
SHAPES = {"prefill": (8 if ON_GPU else 1, 2048, 32), "decode": (32, 1, 32)}
ROPE = rotary.Rope(head_dim=HEAD, theta=THETA, pairing="half")


def rotate_halves(x, cos, sin):
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


def formula(x, positions):
    frequencies = jnp.asarray(ROPE.frequencies.values[:, 0], jnp.float32)
    angles = (positions[..., None].astype(jnp.float32) * frequencies)[:, :, None]
    return rotate_halves(x, jnp.cos(angles), jnp.sin(angles))


def with_table(table):
    cos, sin = table
    return lambda x, at: rotate_halves(x, cos[at][:, :, None], sin[at][:, :, None])


def exact(x, positions):
    return rotary.jax.rotate(x, ROPE, positions)


def copy(x, positions):
    """At the speed of memory; a negation, since XLA returns the argument of a plain copy."""
    return -x


def program(rotate, backward):
    def forward(q, k, at):
        return rotate(q, at), rotate(k, at)

    def gradient(q, k, at):
        _, pull = jax.vjp(lambda q, k: forward(q, k, at), q, k)
        return pull((q, k))  # any cotangent

    return jax.jit(gradient if backward else forward)


def measure(programs, arguments, repeats):
    """Median seconds of each, interleaved."""
    times = {name: [] for name in programs}
    for _ in range(repeats + 2):
        for name, run in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready([run(*arguments) for _ in range(CALLS)])
            times[name].append((time.perf_counter() - begin) / CALLS)
    return {name: float(np.median(values[2:])) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}; ms, and the ratio to rotary")
    print(f"{'':28}{'rotary':>9}{'formula':>16}{'table':>16}" + f"{'copy':>16}" * ON_GPU)
    table = tuple(jnp.asarray(x) for x in ROPE.cos_sin(0, tokens=8192))
    for shape_name, (batch, tokens, heads) in SHAPES.items():
        for dtype in (jnp.float32, jnp.bfloat16):
            draw = np.random.default_rng(0).standard_normal
            q, k = (jnp.asarray(draw((batch, tokens, heads, HEAD)), dtype) for _ in "qk")
            at = jnp.asarray(np.tile(np.arange(tokens) + 4096, (batch, 1)), jnp.int32)
            for backward in (False, True):
                rotations = {"rotary": exact, "formula": formula, "table": with_table(table)}
                if ON_GPU:
                    rotations["copy"] = copy
                programs = {n: program(rotate, backward) for n, rotate in rotations.items()}
                found = measure(programs, (q, k, at), repeats)
                ours = found.pop("rotary")
                others = "".join(f"{t * 1e3:9.3f} {t / ours:5.2f}x" for t in found.values())
                label = f"{shape_name}, {dtype.__name__}, {'gradient' if backward else 'forward'}"
                print(f"{label:28}{ours * 1e3:9.3f}{others}")


if __name__ == "__main__":
    main()
