# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation in float64, straight from its definition."""

import numpy as np


def members(pairing, rotary_dim):
    """First and second element of every pair."""
    pairs = np.arange(rotary_dim // 2)
    return (
        (2 * pairs, 2 * pairs + 1) if pairing == "interleaved" else (pairs, pairs + rotary_dim // 2)
    )


def rotate(x, rope, positions, inverse=False):
    """x [..., tokens, heads, head_dim] by a rope of `inspect --json`; positions [axes, tokens]."""
    x = np.asarray(x, np.float64)
    frequencies = np.array(rope["frequencies"])  # [pairs, axes]
    phase = np.einsum("pa,at->tp", frequencies, np.atleast_2d(np.asarray(positions, np.float64)))
    z = rope["scale"] * np.exp(1j * phase)[:, None, :]
    read, write = rope["pairing"], rope["output_pairing"]
    if inverse:
        z, read, write = 1 / z, write, read
    first, second = members(read, rope["rotary_dim"])
    into_first, into_second = members(write, rope["rotary_dim"])
    offset = rope["rotary_offset"] if x.shape[-1] == rope["head_dim"] else 0
    rotated = (x[..., offset + first] + 1j * x[..., offset + second]) * z
    out = x.copy()
    out[..., offset + into_first] = rotated.real
    out[..., offset + into_second] = rotated.imag
    return out


def values(*shape, dtype=np.float32):
    """The same uniform numbers in every run."""
    return np.random.default_rng(7).uniform(-1, 1, shape).astype(dtype)
