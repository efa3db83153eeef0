# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The kernels behind the operators on CUDA, beside a copy: the workloads of docs/cuda.md.

Calls are captured in a CUDA graph and cycle through some gigabytes of tensors, so that no call
finds its tensors in a cache and host time does not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import rotary
import rotary.torch

ops = torch.ops.rotary

# batch, tokens, heads of q and k, head_dim
WORKLOADS = {
    "A": (1, 131072, 32, 8, 128, torch.bfloat16),
    "B": (8, 4096, 32, 8, 128, torch.bfloat16),
    "D": (4, 8192, 32, 32, 128, torch.bfloat16),
    "E": (64, 512, 12, 12, 64, torch.bfloat16),
    "F": (64, 512, 12, 12, 64, torch.float32),
}
MIN_BYTES = 4 << 30  # of all tensors that calls cycle through


class Clock:
    """Device time of a with block."""

    def __enter__(self) -> Clock:
        self._begin, self._end = (torch.cuda.Event(True) for _ in range(2))  # type: ignore
        self._begin.record()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.record()

    def us(self) -> float:
        self._end.synchronize()
        return 1e3 * float(self._begin.elapsed_time(self._end))


def graph_us(calls: list[Callable[[], object]], rounds: int) -> float:
    """Median microseconds of one of the calls. Their results live as long as the graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    times = []
    for _ in range(rounds + 1):
        with Clock() as clock:
            graph.replay()
        times.append(clock.us() / len(calls))
    del kept
    return statistics.median(times[1:])


def copy_rate(rounds: int) -> float:
    """Bytes read and written in a microsecond, by copies of workload A's q and k. Not in a graph,
    where a copy may be given to the slower copy engines."""
    batch, tokens, q, k, dim, dtype = WORKLOADS["A"]
    shape = (batch, tokens, q + k, dim)
    x = [torch.ones(shape, dtype=dtype, device="cuda") for _ in range(3)]
    y = [torch.empty_like(each) for each in x]
    times = []
    for _ in range(rounds + 1):
        with Clock() as clock:
            for to, source in zip(y, x):
                to.copy_(source)
        times.append(clock.us() / len(x))
    return 2 * x[0].nbytes / statistics.median(times[1:])


def calls_of(operator: str, sets: list[list[Tensor]], text: str) -> list[Callable[[], object]]:
    op = getattr(ops, operator).default
    return [lambda pair=pair: op(pair, text) for pair in sets]  # type: ignore[misc]


def measure_all(rounds: int) -> list[dict[str, Any]]:
    """Fields of bench_rotation.Row."""
    rate = copy_rate(rounds)
    rows: list[dict[str, Any]] = []
    for name, (batch, tokens, q, k, dim, dtype) in WORKLOADS.items():
        texts = {
            pairing: rotary.torch.rope_text(rotary.Rope(head_dim=dim, theta=5e5, pairing=pairing))
            for pairing in ("half", "interleaved")
        }
        size = batch * tokens * (q + k) * dim * dtype.itemsize
        sets = [
            [torch.ones(batch, tokens, h, dim, dtype=dtype, device="cuda") for h in (q, k)]
            for _ in range(-(-MIN_BYTES // size))
        ]
        for operator, pairing in (
            ("rotate", "half"),
            ("rotate_", "half"),
            ("rotate", "interleaved"),
            ("adjoint", "half"),
            ("adjoint", "interleaved"),
        ):
            us = graph_us(calls_of(operator, sets, texts[pairing]), rounds)
            rows.append(
                {
                    "what": f"kernel {name}",
                    "dtype": str(dtype).removeprefix("torch."),
                    "candidate": f"{operator}, {pairing}",
                    "us": us,
                    "of_copy": 2 * size / us / rate,
                }
            )
        del sets
        torch.cuda.empty_cache()
    return rows
