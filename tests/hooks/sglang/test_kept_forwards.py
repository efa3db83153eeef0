# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Classes of SGLang that keep their forward and read exact tables: dual chunk attention, FoPE,
Llama 4's vision tower. Those of each, and of SGLang's own class, against the formula."""

import numpy as np
import pytest
import torch
from kept_forwards import angles, fourier_table, vision_table
from sglang.srt import plugins
from sglang.srt.layers.rotary_embedding import rope_variant

HEAD, THETA, INVERSE, ROWS = 64, 10000.0, 24, 150_000
CHUNK, LENGTH = 65536, 64512


@pytest.fixture(autouse=True, scope="module")
def replaced():
    plugins.load_plugins()


class TorchOnCpu:
    """torch for a class that asks for the current CUDA device."""

    cuda = type("cuda", (), {"current_device": staticmethod(lambda: 0)})

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def device(name):
        assert name == "cuda:0"
        return torch.device("cpu")


def both(name):
    """The class that replaces SGLang's, and that one."""
    made = getattr(rope_variant, name)
    assert made.__name__ == f"Exact{name}"
    return made, next(cls for cls in made.__mro__ if cls.__name__ == name)


def error(table, right):
    return float(np.abs(table.numpy().reshape(right.shape) - right).max())


def test_dual_chunk(monkeypatch):
    monkeypatch.setattr(rope_variant, "torch", TorchOnCpu())
    ours, theirs = (
        cls(HEAD, HEAD, ROWS, THETA, True, torch.float32, CHUNK, CHUNK - LENGTH)
        for cls in both("DualChunkRotaryEmbedding")
    )
    at = np.arange(LENGTH)
    tables = {
        "q": at,
        "qc": np.minimum(at + LENGTH, CHUNK),
        "k": np.arange(ROWS) % LENGTH,
        "qc_no_clamp": at + LENGTH,
        "q_inter": at + CHUNK,
    }
    for name, positions in tables.items():
        rows = slice(0, None, 97)
        phase = angles(positions[rows], HEAD, THETA)
        right = np.concatenate((np.cos(phase), np.sin(phase)), -1).astype(np.float64)
        found = [getattr(m, f"cos_sin_{name}_cache")[rows] for m in (ours, theirs)]
        assert error(found[0], right) < 1e-7 and error(found[1], right) > 1e-4


def test_fope():
    """From the first forward on, with the checkpoint's coefficients."""
    generator = torch.Generator().manual_seed(3)
    coefficients = [
        torch.eye(INVERSE) + 0.1 * torch.randn(2, INVERSE, INVERSE, generator=generator)
        for _ in range(2)
    ]
    positions = torch.randint(100_000, ROWS, (8,), generator=generator)
    q = torch.randn(8, 2 * HEAD, generator=generator)
    phase = angles(positions.numpy(), HEAD, THETA)[:, :INVERSE]
    cos, sin = np.split(fourier_table(phase, coefficients, HEAD), 2, -1)
    x = q.view(8, 2, HEAD).numpy().astype(np.longdouble)
    a, b = np.split(x, 2, -1)
    right = (x * cos + np.concatenate((-b, a), -1) * sin).astype(np.float64)
    errors = []
    for cls in both("FourierRotaryEmbedding"):
        module = cls(
            HEAD, HEAD, ROWS, THETA, True, torch.float32, 2, num_inv_freq=INVERSE, device="cpu"
        )
        for param, value in zip((module.cos_coef, module.sin_coef), coefficients, strict=True):
            param.data.copy_(value)
        errors.append(error(module(positions, q.clone(), q.clone())[0], right))
    assert errors[0] < 4e-6 and errors[1] > 1e-3


def test_llama4_vision():
    side = 48
    right = vision_table(side, HEAD, THETA)
    found = [
        error(cls(HEAD, HEAD // 2, side * side, THETA, False, torch.complex64).cos_sin_cache, right)
        for cls in both("Llama4VisionRotaryEmbedding")
    ]
    assert found[0] < 1e-7 and 1e-7 < found[1] < 1e-4
