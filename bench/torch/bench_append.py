# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rope_append_kv against the same by several calls, in one run.

    python bench/torch/bench_append.py           # on the GPU where there is one, else on the CPU

Pages of 16 tokens in shuffled order, q in place, 32 + 8 + 8 heads of 128. Candidates:
    fused     rope_append_kv
    rotate    rotary's rotate_ of q and k, then an index_put_ of k and of v
    copy      q, k and v to other memory: as many bytes, no work
Quantised caches: "rotate" rounds k and v by PyTorch's operators. Candidates alternate; figures are
medians of the time of one call, in microseconds, and how many times as long as "fused" they take.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import rotary.torch as rt

HEADS, KV_HEADS, HEAD_DIM, PAGE = 32, 8, 128, 16
ROPE = {"head_dim": HEAD_DIM, "rotary_dim": HEAD_DIM, "theta": 5e5, "pairing": "half"}


def measure(calls: dict[str, Callable[[], object]], device: str, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 2):
        for name, call in calls.items():
            if device == "cuda":
                torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: statistics.median(all_[2:]) for name, all_ in times.items()}


def candidates(
    tokens: int, dtype: torch.dtype, cache_dtype: torch.dtype, device: str
) -> dict[str, Callable[[], object]]:
    rope = rt.rope_text(ROPE)
    q = torch.randn(tokens, HEADS, HEAD_DIM, device=device).to(dtype)
    k, v = torch.randn(2, tokens, KV_HEADS, HEAD_DIM, device=device).to(dtype).unbind()
    pages = -(-tokens // PAGE) + 8
    shape = (2, pages, PAGE, KV_HEADS, HEAD_DIM)
    keys, values = torch.zeros(shape, device=device).to(cache_dtype).unbind()
    slots = torch.randperm(pages, device=device)[:, None] * PAGE + torch.arange(PAGE, device=device)
    slots = slots.flatten()[:tokens].contiguous()
    positions = torch.arange(tokens, device=device)
    is_quantised = cache_dtype != dtype
    scale = torch.tensor([0.05], device=device) if is_quantised else None

    def fused() -> object:
        return rt.rope_append_kv(
            q, k, v, keys, values, slots, rope=rope, positions=positions, k_scale=scale,
            v_scale=scale, in_place=True,
        )  # fmt: skip

    def quantised(x: Tensor) -> Tensor:
        if scale is None:
            return x
        largest = torch.finfo(cache_dtype).max
        return (x.float() / scale).clamp(-largest, largest).to(cache_dtype).view(torch.uint8)

    def rotate() -> object:
        rt.rotate_(q, rope=rope, positions=positions)
        turned = rt.rotate(k, rope=rope, positions=positions)
        index = (slots // PAGE, slots % PAGE)
        for cache, x in ((keys, turned), (values, v)):
            bytes_or_all = cache.view(torch.uint8) if is_quantised else cache
            bytes_or_all.index_put_(index, quantised(x))
        return q

    spare = torch.empty_like(q)
    out = torch.empty_like(k)

    def copy() -> object:
        spare.copy_(q)
        out.copy_(k)
        return out.copy_(v)

    return {"fused": fused, "rotate": rotate, "copy": copy}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, nargs="+", default=(1, 64, 4096))
    parser.add_argument("--rounds", type=int, default=21, help="repetitions of each (21)")
    options = parser.parse_args(arguments)
    for tokens in options.tokens:
        for dtype, cache_dtype in (
            (torch.float32, torch.float32),
            (torch.bfloat16, torch.bfloat16),
            (torch.bfloat16, torch.float8_e4m3fn),
        ):
            calls = candidates(tokens, dtype, cache_dtype, options.device)
            us = measure(calls, options.device, options.rounds)
            ratios = ", ".join(
                f"{name} {t:.0f} us ({t / us['fused']:.2f})" for name, t in us.items()
            )
            print(f"{tokens} tokens, {str(dtype)[6:]} to {str(cache_dtype)[6:]}: {ratios}")


if __name__ == "__main__":
    main()
