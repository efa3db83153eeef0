# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every rotary class of vLLM, before and after it is replaced by one with exact angles."""

import importlib
import inspect
import pkgutil
import types

import numpy as np
import pytest
import torch
from ropes import CASES, HEAD, THETA, make, package, vllm_config
from rotary_vllm import exact
from vllm.model_executor.layers.rotary_embedding.linear_scaling_rope import (
    LinearScalingRotaryEmbedding,
)

ORIGINAL = {name: make(case, torch.float32) for name, case in CASES.items()}
REPLACED, KEPT = exact.replace_classes()
TOKENS, HEADS, KV_HEADS = 40, 4, 2
MILLION = 1_000_000


def tensors(dtype=torch.float32, seed=0):
    """q and k as vLLM has them: parts of one projection."""
    torch.manual_seed(seed)
    qkv = torch.randn(TOKENS, (HEADS + 2 * KV_HEADS) * HEAD).to(dtype)
    return qkv.split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], -1)[:2]


def in_heads(case, *both):
    """Some classes take [tokens, heads, head]."""
    if not case.cls.startswith("Deepseek"):
        return both
    return tuple(x.unflatten(-1, (-1, HEAD)) for x in both)


def places(case, limit, first=0, seed=1):
    shape = (TOKENS,) if case.axes == 1 else (case.axes, TOKENS)
    return torch.randint(first, limit, shape, generator=torch.Generator().manual_seed(seed))


def expected(case, x, positions):
    """By rotary.Rope, in NumPy, of float32."""
    heads = x.detach().float().reshape(1, TOKENS, -1, HEAD).numpy()
    at = positions.numpy() if case.axes == 1 else positions[:, None].numpy()
    return torch.from_numpy(case.expected().rotate(heads, positions=at))


def test_every_class_is_named():
    """A class that vLLM adds is replaced, or kept for a reason."""
    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        for name, cls in vars(importlib.import_module(f"{package.__name__}.{module.name}")).items():
            if inspect.isclass(cls) and hasattr(cls, "_compute_inv_freq"):
                found.add(name.removeprefix("Exact"))
    assert found - {"RotaryEmbeddingBase"} == set(REPLACED) | set(KEPT)
    assert not KEPT
    # test_kept_forwards.py has the others.
    forwards_kept = {
        "FourierRotaryEmbedding", "DualChunkRotaryEmbedding", "Llama4VisionRotaryEmbedding",
    }  # fmt: skip
    assert {case.cls for case in CASES.values()} == set(REPLACED) - forwards_kept


@pytest.mark.parametrize("name", CASES)
def test_is_the_class_nearby(name):
    """At positions where float32 is good, what vLLM computes."""
    case, original, module = CASES[name], ORIGINAL[name], make(CASES[name], torch.float32)
    assert type(original).__name__ == case.cls and type(module).__name__ == f"Exact{case.cls}"
    positions = places(case, 100)
    q, k = in_heads(case, *tensors())
    native = getattr(original, "forward_native", original.forward)
    if case.cls == "MRotaryEmbeddingInterleaved":
        native = original.forward
    wanted = native(positions, q.clone(), k.clone())
    found = module(positions, q, k)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.reshape(-1) - theirs.reshape(-1)).abs().max() < 1e-4
    assert found[0].data_ptr() == q.data_ptr()  # in place


@pytest.mark.parametrize("name", CASES)
def test_is_exact_far_away(name):
    """At a million, far beyond the rows of its table."""
    case = CASES[name]
    module = make(case, torch.float32)
    positions = places(case, MILLION + 1000, MILLION)
    q, k = in_heads(case, *tensors())
    wanted = [expected(case, x, positions) for x in (q, k)]
    for ours, right in zip(module(positions, q, k), wanted, strict=True):
        assert (ours.reshape(-1) - right.reshape(-1)).abs().max() < 4e-6


@pytest.mark.parametrize("name", CASES)
def test_table_is_exact(name):
    """For the code of vLLM that reads it."""
    case, module = CASES[name], make(CASES[name], torch.float32)
    table = module.long_short_cos_sin_cache[512:] if name == "longrope" else module.cos_sin_cache
    frequencies = np.asarray(module.exact_frequencies, np.longdouble)
    at = np.arange(0, table.shape[0], 13)
    angles = at[:, None] * frequencies
    right = np.concatenate((np.cos(angles), np.sin(angles)), -1) * module.exact_scale
    assert np.abs(table[at].double().numpy() - right).max() < 1.5e-7 * max(1, module.exact_scale)
    ours = case.expected().frequencies
    assert module.exact_scale == pytest.approx(ours.scale, rel=1e-12)
    summed = np.sort(np.abs(ours.values).sum(-1))  # the axis does not matter here
    assert np.allclose(np.sort(frequencies.astype(float)), summed, rtol=1e-13, atol=0)


def test_error_of_the_float32_table():
    """What exact angles are for: cos and sin of vLLM's table at a million."""
    case = CASES["plain"]
    rows = MILLION + 64
    frequencies = make(case, torch.float32).exact_frequencies
    angles = np.arange(MILLION, rows)[:, None] * np.asarray(frequencies, np.longdouble)
    right = np.concatenate((np.cos(angles), np.sin(angles)), -1).astype(np.float64)

    def error(table):
        return float(np.abs(table[MILLION:rows].double().numpy() - right).max())

    own = package.RotaryEmbedding._compute_cos_sin_cache(bare(package.RotaryEmbedding, rows))
    exactly = make(case, torch.float32, rows).cos_sin_cache
    print(f"error at position {MILLION}: vLLM {error(own):.1e}, exact {error(exactly):.1e}")
    assert error(own) > 1e-2 and error(exactly) < 1.5e-7


def bare(cls, rows):
    """What a class of vLLM computes its table from, without its replacement."""
    made = types.SimpleNamespace(rotary_dim=HEAD, max_position_embeddings=rows, base=THETA)
    made._compute_inv_freq = types.MethodType(cls._compute_inv_freq, made)
    return made


def test_bfloat16_is_rounded_once():
    """vLLM's table is in the type of the model; exact angles are not."""
    case = CASES["plain"]
    positions = places(case, 100)
    q, k = tensors(torch.bfloat16)
    right = expected(case, q, positions).reshape(TOKENS, -1)
    theirs = make_original_bfloat16(positions, q.clone(), k.clone())
    ours = make(case, torch.bfloat16)(positions, q, k)[0]
    assert (ours.float() - right).abs().max() <= 2**-8 * right.abs().max()
    assert torch.equal(ours, right.to(torch.bfloat16))
    assert (theirs.float() - right).abs().mean() > 1.3 * (ours.float() - right).abs().mean()


def make_original_bfloat16(positions, q, k):
    original = ORIGINAL["plain"]
    table = original.cos_sin_cache.to(torch.bfloat16)
    return type(original).forward_static(positions, q, k, HEAD, HEAD, table, True)[0]


def test_query_alone_offsets_and_text():
    module = make(CASES["plain"], torch.float32)
    positions = places(CASES["plain"], 5000)
    q, k = tensors()
    right = expected(CASES["plain"], q, positions).reshape(TOKENS, -1)
    alone, none = module(positions, q.clone())
    assert none is None and torch.allclose(alone, right, atol=4e-6)
    shifted, _ = module(positions - 7, q.clone(), k.clone(), torch.full_like(positions, 7))
    assert torch.equal(shifted, alone)
    # Text in an M-RoPE model: one position for all axes.
    mrope = make(CASES["mrope"], torch.float32)
    text = mrope(positions, q.clone(), k.clone())
    same = mrope(positions.expand(3, -1), q.clone(), k.clone())
    assert torch.equal(text[0], same[0]) and torch.allclose(text[0], right, atol=4e-6)


def test_deepseek_v4_inverse_and_sizes():
    """Heads of another size, rotated at their end; the inverse negates sin and keeps the scale."""
    module, original = make(CASES["deepseek v4"], torch.float32), ORIGINAL["deepseek v4"]
    positions = places(CASES["deepseek v4"], 100)
    x = torch.randn(TOKENS, 3, 48)
    for inverse in (False, True):
        wanted, none = original.forward_native(positions, x.clone(), inverse=inverse)
        assert none is None
        found, none = module(positions, x.clone(), inverse=inverse)
        assert none is None and (found - wanted).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["plain", "mrope", "deepseek v4"])
def test_compiles(name):
    """One graph, as vLLM asks for, with new tensors as results."""
    case, module = CASES[name], make(CASES[name], torch.float32)
    positions = places(case, MILLION)
    q, k = in_heads(case, *tensors())
    compiled = torch.compile(module.forward_native, fullgraph=True, backend="aot_eager")
    found = compiled(positions, q, k)
    wanted = module(positions, q.clone(), k.clone())
    for ours, right in zip(found, wanted, strict=True):
        assert torch.equal(ours, right)


def test_again_and_names():
    """Registered once; custom_ops=["+rotary_embedding"] still means these classes."""
    assert exact.replace_classes() == (REPLACED, KEPT)
    assert type(make(CASES["llama3"], torch.float32)).name == "rotary_embedding"


def test_refuses_what_is_not_exact():
    with vllm_config(), pytest.raises(ValueError, match="one scaling factor is supported, got"):
        LinearScalingRotaryEmbedding(HEAD, HEAD, 128, THETA, True, [2.0, 4.0], torch.float32)
    broken = type(make(CASES["plain"], torch.float32))
    with vllm_config(), pytest.raises(ValueError, match=r"its table differs by .* from its freq"):
        type("Broken", (broken,), {"scale_of_table": lambda self: 1.5})(
            HEAD, HEAD, 128, THETA, True, torch.float32
        )
