# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Classes of vLLM that keep their forward and read exact tables: dual chunk attention, FoPE, Llama
4's vision tower. Each is compared with vLLM's own, and with the formula in long double."""

import numpy as np
import pytest
import torch
from kept_forwards import angles, fourier_table, vision_table
from ropes import vllm_config
from rotary_vllm import exact
from vllm.model_executor.custom_op import op_registry_oot
from vllm.model_executor.layers.rotary_embedding import dual_chunk_rope, fope, llama4_vision_rope

HEAD, THETA, TOKENS = 64, 10000.0, 24
CHUNK, LOCAL, ROWS = 65536, 1024, 200_000
LENGTH = CHUNK - LOCAL  # of a chunk of keys
ORIGINAL = {
    "dual chunk": dual_chunk_rope.DualChunkRotaryEmbedding,
    "fope": fope.FourierRotaryEmbedding,
    "vision": llama4_vision_rope.Llama4VisionRotaryEmbedding,
}


@pytest.fixture(autouse=True, scope="module")
def replaced():
    exact.replace_classes()


class TorchOnCpu:
    """torch for a class that asks for the current CUDA device."""

    accelerator = type("accelerator", (), {"current_device_index": staticmethod(lambda: 0)})

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def device(name):
        assert name == "cuda:0"
        return torch.device("cpu")


def make(name, own, dtype=torch.float32, **options):
    """vLLM's class, or the one that replaces it."""
    cls = ORIGINAL[name]
    with vllm_config():
        if own:  # without the registry, which puts the replacement in its place
            replacement = op_registry_oot.pop(cls.__name__)
        try:
            return cls(HEAD, options.pop("rotary_dim", HEAD), options.pop("rows"), THETA,
                       True, dtype, **options)  # fmt: skip
        finally:
            if own:
                op_registry_oot[cls.__name__] = replacement


@pytest.fixture
def dual_chunk(monkeypatch):
    monkeypatch.setattr(dual_chunk_rope, "torch", TorchOnCpu())

    def build(own, dtype=torch.float32):
        return make("dual chunk", own, dtype, rows=ROWS, chunk_size=CHUNK, local_size=LOCAL)

    return build


def turned(x, phase):
    """Pairs of halves of [tokens, heads, HEAD] by angles [tokens, pairs], in long double."""
    a, b = np.split(x.numpy().astype(np.longdouble), 2, -1)
    cos, sin = np.cos(phase)[:, None], np.sin(phase)[:, None]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def error(found, right):
    return float(np.abs(found.reshape(right.shape).double().numpy() - right).max())


def test_dual_chunk(dual_chunk):
    """Queries are at their place in a chunk, up to two chunks further, and keys in a chunk."""
    torch.manual_seed(0)
    positions = torch.randint(0, ROWS, (TOKENS,))
    q, k = torch.randn(TOKENS, 4 * HEAD), torch.randn(TOKENS, 2 * HEAD)
    module, own = dual_chunk(False), dual_chunk(True)
    assert type(module).__name__ == "ExactDualChunkRotaryEmbedding"
    assert type(own) is ORIGINAL["dual chunk"]
    at = positions.numpy() % LENGTH
    places = {  # in the order of the five parts of the result
        "in the chunk": at,
        "in the next": np.minimum(at + LENGTH, CHUNK),
        "further": np.full(TOKENS, min(2 * LENGTH - 1, CHUNK)),
        "in the next, critical": at + LENGTH,
        "further, critical": at + CHUNK,
    }
    assert max(places["further, critical"]) > 1.5 * CHUNK
    ours, our_key = module(positions, q, k)
    theirs, their_key = own.forward_native(positions, q, k)
    heads = q.view(TOKENS, 4, HEAD)
    parts = zip(
        split(ours),
        split(theirs),
        places.values(),
        strict=True,
    )
    errors = []
    for our_part, their_part, place in parts:
        right = turned(heads, angles(place, HEAD, THETA))
        errors.append((error(our_part, right), error(their_part, right)))
    errors.append(
        (error(our_key, turned(k.view(TOKENS, 2, HEAD), angles(at, HEAD, THETA))),
         error(their_key, turned(k.view(TOKENS, 2, HEAD), angles(at, HEAD, THETA))))
    )  # fmt: skip
    print("exact and vLLM's:", errors)
    assert max(ours for ours, _ in errors) < 2e-6 and min(theirs for _, theirs in errors) > 1e-4


def split(x):
    """Parts of [tokens, heads * 5 parts]: each [tokens, heads, HEAD]."""
    return x.view(TOKENS, 5, 4, HEAD).unbind(1)


def test_dual_chunk_nearby_and_in_bfloat16(dual_chunk):
    module, own = dual_chunk(False), dual_chunk(True)
    for name in ("q", "k"):
        table, theirs = (getattr(m, f"cos_sin_{name}_cache")[:64] for m in (module, own))
        assert (table - theirs).abs().max() < 2e-5
    table = dual_chunk(False, torch.bfloat16).cos_sin_q_inter_cache
    phase = angles(np.arange(LENGTH - 64, LENGTH) + CHUNK, HEAD, THETA)
    right = np.concatenate((np.cos(phase), np.sin(phase)), -1).astype(np.float64)
    assert table.dtype == torch.bfloat16
    assert np.abs(table[-64:].double().numpy() - right).max() <= 2**-9 * (1 + 1e-6)


INVERSE = 24  # frequencies of FoPE; the other pairs are not turned


def fourier(own, separate, rows=150_000, dtype=torch.float32):
    return make(
        "fope", own, dtype, rows=rows, init_cache=False, num_key_value_heads=2,
        num_inv_freq=INVERSE, fope_sep_head=separate, fope_init_factor=0.1,
    )  # fmt: skip


def load(module, coefficients, monkeypatch):
    monkeypatch.setattr(fope, "get_tensor_model_parallel_world_size", lambda: 1)
    monkeypatch.setattr(fope, "get_tensor_model_parallel_rank", lambda: 0)
    for param, value in zip((module.cos_coef, module.sin_coef), coefficients, strict=True):
        param.weight_loader(param, value)


def coefficients():
    generator = torch.Generator().manual_seed(3)
    return [
        torch.eye(INVERSE) + 0.1 * torch.randn(2, INVERSE, INVERSE, generator=generator)
        for _ in range(2)
    ]


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "first forward"])
def test_fope(loaded, monkeypatch):
    """The table is that of the checkpoint's coefficients, when both are loaded, or at the latest
    in the first forward."""
    modules = [fourier(own, separate=True) for own in (False, True)]
    assert [type(m).__name__ for m in modules] == [
        "ExactFourierRotaryEmbedding", "FourierRotaryEmbedding",
    ]  # fmt: skip
    for module in modules:
        if loaded:
            load(module, coefficients(), monkeypatch)
        else:
            for param, value in zip((module.cos_coef, module.sin_coef), coefficients()):
                param.data.copy_(value)
    assert modules[0].update_cache is not loaded and modules[1].update_cache
    torch.manual_seed(0)
    positions = torch.cat((torch.arange(8), torch.randint(100_000, 150_000, (TOKENS - 8,))))
    q, k = torch.randn(TOKENS, 2 * HEAD), torch.randn(TOKENS, 2 * HEAD)
    phase = angles(positions.numpy(), HEAD, THETA)[:, :INVERSE]
    table = fourier_table(phase, coefficients(), HEAD)
    cos, sin = np.split(table, 2, -1)
    x = q.view(TOKENS, 2, HEAD).numpy().astype(np.longdouble)
    a, b = np.split(x, 2, -1)
    right = x * cos + np.concatenate((-b, a), -1) * sin
    ours, theirs = (module.forward_native(positions, q, k)[0] for module in modules)
    assert error(ours[:8], right[:8]) < 4e-6 and error(theirs[:8], right[:8]) < 4e-5
    assert error(ours, right) < 4e-6 and error(theirs, right) > 1e-3
    assert not any(module.update_cache for module in modules)


def test_llama4_vision():
    """Positions of rows and columns of patches, and none of the class token."""
    side = 48
    options = {"rotary_dim": HEAD // 2, "rows": side * side, "dtype": torch.complex64}
    module, own = make("vision", False, **options), make("vision", True, **options)
    assert type(module).__name__ == "ExactLlama4VisionRotaryEmbedding"
    assert module.cos_sin_cache.shape == own.cos_sin_cache.shape
    assert module.cos_sin_cache.dtype == torch.complex64
    right = vision_table(side, HEAD, THETA)

    def table_error(table):
        return float(np.abs(table.reshape(right.shape).numpy() - right).max())

    ours, theirs = table_error(module.cos_sin_cache), table_error(own.cos_sin_cache)
    print(f"exact {ours:.1e}, vLLM's {theirs:.1e}")
    assert ours < 1e-7 and 1e-7 < theirs < 1e-4
    q = torch.randn(1, side * side + 1, 2, HEAD)
    found, wanted = module.forward_native(q, q)[0], own.forward_native(q, q)[0]
    assert (found - wanted).abs().max() < 1e-4
