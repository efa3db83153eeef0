# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""vLLM's operator _C::rotary_embedding, before and after rotary's kernel is its kernel.

vLLM's build for AArch64 needs instructions for bfloat16, which not every CPU has, and of tensors
with a dim for heads its CPU kernel rotates the first head only: in these cases, results are
compared with float64 alone."""

import itertools

import pytest
import torch
import vllm._custom_ops as ops
from rotary_vllm import table

HEAD, ROWS, TOKENS = 64, 512, 37
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def cache(rotary_dim, dtype):
    frequencies = 10000.0 ** (-torch.arange(0, rotary_dim, 2).float() / rotary_dim)
    angles = torch.arange(ROWS).float()[:, None] * frequencies
    return torch.cat((angles.cos(), angles.sin()), -1).to(dtype)


def arguments(dtype, is_neox, rotary_dim, shape):
    """Those of one call, new each time."""
    torch.manual_seed(0)
    positions = torch.randint(0, ROWS, (TOKENS,))
    qkv = torch.randn(TOKENS, 8 * HEAD).to(dtype)
    q, k = qkv.split([4 * HEAD, 2 * HEAD, 2 * HEAD], -1)[:2]
    if shape == "heads":
        q, k = q.unflatten(-1, (-1, HEAD)), k.unflatten(-1, (-1, HEAD))
    elif shape == "q alone":
        k = None
    elif shape == "rows":
        rows = (1, TOKENS, -1)
        positions, q, k = positions[None], q.reshape(rows), k.reshape(rows)
    return positions, q, k, HEAD, cache(rotary_dim, dtype), is_neox


CASES = [
    *itertools.product(DTYPES, (True, False), (HEAD, HEAD // 2), ("flat", "heads", "q alone")),
    (torch.float32, True, HEAD, "rows"),
]


def call(case):
    given = arguments(*case)
    ops.rotary_embedding(*given)
    return [x.float() for x in given[1:3] if x is not None]


BEFORE = [None if case[0] is torch.bfloat16 or case[3] == "heads" else call(case) for case in CASES]
DEVICE = table.replace_kernel()


def right(case):
    """In float64."""
    positions, q, k, _, rows, is_neox = arguments(*case)
    pairs = rows.shape[-1] // 2
    cos, sin = (part[:, None].double() for part in rows[positions.flatten()].split(pairs, -1))
    results = []
    for x in (q, k):
        if x is None:
            continue
        heads = x.reshape(TOKENS, -1, HEAD).double()
        turned, rest = heads[..., : 2 * pairs], heads[..., 2 * pairs :]
        a, b = turned.chunk(2, -1) if is_neox else (turned[..., ::2], turned[..., 1::2])
        both = (a * cos - b * sin, b * cos + a * sin)
        made = torch.cat(both, -1) if is_neox else torch.stack(both, -1).flatten(-2)
        results.append(torch.cat((made, rest), -1).reshape(x.shape))
    return results


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda i: str(CASES[i]))
def test_same_results(index):
    """Rounded once: within half a unit in the last place of the type, and near vLLM's kernel."""
    case = CASES[index]
    unit = torch.finfo(case[0]).eps
    found = call(case)
    for ours, exactly in zip(found, right(case), strict=True):
        assert ((ours - exactly).abs() / exactly.abs().clamp(min=1.0)).max() <= 0.51 * unit + 2e-7
    for ours, theirs in zip(found, BEFORE[index] or found, strict=True):
        assert ((ours - theirs).abs() / theirs.abs().clamp(min=1.0)).max() <= unit + 4e-7


def test_slice_and_inverse():
    """The arguments of DeepSeek-V4: the slice begins inside the head; the inverse undoes it."""
    positions, q, k, _, rows, _ = arguments(torch.float32, False, HEAD // 2, "flat")
    before = q.clone(), k.clone()
    ops.rotary_embedding(positions, q, k, HEAD, rows, False, HEAD // 2, False)
    for x, old in zip((q, k), before, strict=True):
        x, old = x.unflatten(-1, (-1, HEAD)), old.unflatten(-1, (-1, HEAD))
        assert torch.equal(x[..., : HEAD // 2], old[..., : HEAD // 2])
        assert not torch.allclose(x[..., HEAD // 2 :], old[..., HEAD // 2 :], atol=0.1)
    ops.rotary_embedding(positions, q, k, HEAD, rows, False, HEAD // 2, True)
    assert torch.allclose(q, before[0], atol=1e-6) and torch.allclose(k, before[1], atol=1e-6)


def test_once_and_for_the_cpu():
    assert DEVICE == "CPU"
    assert table.replace_kernel() == "CPU"


def test_rejects_a_position_outside_of_the_table():
    """Nothing is read from elsewhere, and nothing is written."""
    given = arguments(torch.float32, True, HEAD, "flat")
    given[0][3] = ROWS
    before = given[1].clone()
    with pytest.raises(ValueError, match=str(ROWS)):
        ops.rotary_embedding(*given)
    assert torch.equal(given[1], before)
