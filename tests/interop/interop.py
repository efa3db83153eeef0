# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests: the command under test, and the rotation in float64 NumPy."""

import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMED = os.environ.get("ROTARY_COMMAND") or os.environ.get("ROTARY")
ROTARY = NAMED or ROOT / "build" / "bin" / "rotary"


def run(*args):
    """Runs the command; the result has returncode, stdout and stderr."""
    command = [str(a) for a in (ROTARY, *args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def succeed(*args):
    result = run(*args)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*args):
    """Runs the command, which must fail with code 1; returns the one line that it prints."""
    result = run(*args)
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def rotate(model, source, target, positions, *options):
    succeed("rotate", model, source, target, "--positions", positions, *options)


def ropes_of(model):
    """The ropes of `rotary inspect`, by name."""
    return {rope["name"]: rope for rope in json.loads(succeed("inspect", model, "--json"))["ropes"]}


def rope_of(model):
    """The only rope of a model."""
    (rope,) = ropes_of(model).values()
    return rope


# ---- Reference -----------------------------------------------------------------------------------


def base_frequencies(theta, dim):
    """f_i = theta^(-2i/d)."""
    return theta ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)


def yarn(theta, dim, factor, original, beta_fast=32.0, beta_slow=1.0):
    """YaRN's frequencies and scale, with correction dims rounded outwards."""

    def correction(rotations):
        return dim * np.log(original / (rotations * 2 * np.pi)) / (2 * np.log(theta))

    low = max(np.floor(correction(beta_fast)), 0)
    high = min(np.ceil(correction(beta_slow)), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    f = base_frequencies(theta, dim)
    return f / factor * ramp + f * (1 - ramp), 0.1 * np.log(factor) + 1


def rotate_heads(x, phases, pairing, scale=1.0):
    """Rotates the first dims of [tokens, heads, head_dim] by phases [tokens, pairs]."""
    out = np.array(x, dtype=np.float64)
    pairs = phases.shape[1]
    first = np.arange(pairs) * 2 if pairing == "interleaved" else np.arange(pairs)
    second = first + 1 if pairing == "interleaved" else first + pairs
    z = scale * np.exp(1j * phases)[:, None, :]
    w = (out[..., first] + 1j * out[..., second]) * z
    out[..., first], out[..., second] = w.real, w.imag
    return out


# One rounding to the type of the tensor, and float32 arithmetic before it, for |x| < 4. The phases
# of the oracle are rounded too: 1.5e-11 at position 131071.
TOLERANCE = {
    "float16": {"rtol": 2**-11, "atol": 1e-6},
    "bfloat16": {"rtol": 2**-8, "atol": 1e-6},
    "float32": {"rtol": 0, "atol": 4e-6},
    "float64": {"rtol": 0, "atol": 1e-10},
}


def assert_rotated(actual, expected, dtype):
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual.astype(np.float64), expected, **TOLERANCE[dtype])


def random_heads(tokens=5, heads=3, head_dim=16):
    """Float64 [tokens, heads, head_dim] that every float type holds without loss."""
    values = np.random.default_rng(7).integers(-127, 128, (tokens, heads, head_dim))
    return values.astype(np.float64) / 32
