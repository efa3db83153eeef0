# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""cos and sin of the classes of vLLM and SGLang that keep their forward, in long double."""

import numpy as np


def angles(positions, head, theta):
    pairs = np.arange(head // 2, dtype=np.longdouble)
    return np.asarray(positions, np.longdouble)[..., None] * theta ** (-2 * pairs / head)


def fourier_table(phase, coefficients, head):
    """FoPE: [tokens, heads, cos | sin], `head` of each; pairs that are not mixed have ones."""
    found = []
    for values, matrix in zip((np.cos(phase), np.sin(phase)), coefficients, strict=True):
        mixed = np.einsum("tD,hDd->thd", values, matrix.numpy().astype(np.longdouble))
        rest = np.ones((*mixed.shape[:-1], head // 2 - mixed.shape[-1]))
        found.append(np.concatenate([mixed, rest] * 2, -1))
    return np.concatenate(found, -1)


def vision_table(side, head, theta):
    """Llama 4: complex, of rows and columns of patches, and none of the class token."""
    pairs = np.arange(head // 4, dtype=np.longdouble)
    patch = np.arange(side * side)
    frequencies = theta ** (-4 * pairs / head)
    places = (patch % side + 1, patch // side + 1)
    phase = np.concatenate([place[:, None] * frequencies for place in places], -1)
    phase = np.concatenate((phase, np.zeros((1, phase.shape[1]))))
    return (np.cos(phase) + 1j * np.sin(phase)).astype(np.complex128)
