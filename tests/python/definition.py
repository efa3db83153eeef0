# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation by its definition, in float64 NumPy, and helpers of the tests."""

import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
MODELS = ROOT / "examples" / "models"


def members(pairing, rotary_dim):
    """First and second element of every pair."""
    pairs = np.arange(rotary_dim // 2)
    if pairing == "interleaved":
        return 2 * pairs, 2 * pairs + 1
    return pairs, pairs + rotary_dim // 2


def rotated(x, rope, positions, power=1, conjugate=False):
    """x [tokens, heads, head_dim] times z^power or conj(z), at [tokens] or [axes, tokens]."""
    x = np.asarray(x, np.float64)
    layout, f = rope.layout, rope.frequencies
    phase = np.atleast_2d(np.asarray(positions, np.float64)).T @ f.values.T
    z = (f.scale * np.exp(1j * phase))[:, None, :] ** power
    z = z.conj() if conjugate else z
    read, write = layout.pairing, layout.output_pairing
    if power < 0 or conjugate:
        read, write = write, read
    slice_ = slice(layout.rotary_offset, layout.rotary_offset + f.rotary_dim)
    part = x[..., slice_]
    first, second = members(read, f.rotary_dim)
    pairs = (part[..., first] + 1j * part[..., second]) * z
    out = x.copy()
    first, second = members(write, f.rotary_dim)
    out[..., layout.rotary_offset + first] = pairs.real
    out[..., layout.rotary_offset + second] = pairs.imag
    return out


def values(*shape, dtype=np.float32, seed=7):
    """Uniform random values, the same in every run."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)
