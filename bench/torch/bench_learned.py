# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Learned frequencies: shared by all heads against those of each head, in one run.

    python bench/torch/bench_learned.py          # on the GPU where there is one, else on the CPU

Rotates the q and k of a RoFormer layer by rotate_learned, forward, and with the gradients of
tensors and frequencies. Candidates alternate; figures are medians of the time of one call, in
microseconds, and how many times as long per head takes.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import torch

import rotary.torch as rt

HEADS, HEAD_DIM = 12, 64


def rope_of(pairing: str) -> str:
    return rt.rope_text(
        {"head_dim": HEAD_DIM, "rotary_dim": HEAD_DIM, "theta": 10000.0, "pairing": pairing}
    )


def measure(calls: dict[str, Callable[[], object]], device: str, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    repeats = 10 if device == "cuda" else 1
    for _ in range(rounds + 2):
        for name, call in calls.items():
            if device == "cuda":
                torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append((time.perf_counter() - begin) / repeats * 1e6)
    return {name: statistics.median(all_[2:]) for name, all_ in times.items()}


def run(
    batch: int, tokens: int, dtype: torch.dtype, pairing: str, device: str, rounds: int
) -> None:
    rope = rope_of(pairing)

    def heads() -> torch.Tensor:
        x = torch.randn(batch, tokens, HEADS, HEAD_DIM, device=device).to(dtype)
        return x.requires_grad_()

    q, k = heads(), heads()
    grads = [torch.randn_like(q), torch.randn_like(k)]
    shared = torch.ops.rotary.frequencies_like(q, rope).detach().requires_grad_()
    own = shared.detach().repeat(HEADS, 1, 1).requires_grad_()

    def forward(frequencies: torch.Tensor) -> list[torch.Tensor]:
        return torch.ops.rotary.rotate_learned([q, k], rope, frequencies)

    def inference(frequencies: torch.Tensor) -> Callable[[], object]:
        def call() -> object:
            with torch.no_grad():
                return forward(frequencies)

        return call

    def training(frequencies: torch.Tensor) -> Callable[[], object]:
        return lambda: torch.autograd.grad(forward(frequencies), [q, k, frequencies], grads)

    for name, kind in (("forward", inference), ("forward and backward", training)):
        us = measure({"shared": kind(shared), "per head": kind(own)}, device, rounds)
        print(
            f"{batch} x {tokens} tokens, {str(dtype)[6:]}, {pairing}, {name}: "
            f"shared {us['shared']:.0f} us, per head {us['per head']:.0f} us, "
            f"{us['per head'] / us['shared']:.2f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=512, help="of a row (512)")
    parser.add_argument("--batch", type=int, nargs="+", help="rows (1 16 64; on the CPU 1 8 16)")
    pairings = ("interleaved", "half")
    parser.add_argument("--pairing", nargs="+", choices=pairings, default=pairings[:1])
    parser.add_argument("--dtype", nargs="+", help="of the tensors (float32 bfloat16)")
    parser.add_argument("--rounds", type=int, default=21, help="repetitions of each (21)")
    options = parser.parse_args(arguments)
    on_cuda = options.device == "cuda"
    types = options.dtype or ("float32", "bfloat16")
    for batch in options.batch or ((1, 16, 64) if on_cuda else (1, 8, 16)):
        for name, pairing in itertools.product(types, options.pairing):
            dtype = getattr(torch, name)
            run(batch, options.tokens, dtype, pairing, options.device, options.rounds)


if __name__ == "__main__":
    main()
