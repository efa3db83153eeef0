# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Overhead of RoPE in softmax attention: rotation and PyTorch's fused kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from rotary.torch import attend, attention_backend, rope_text

Row = dict[str, Any]


def _times(calls: list[Callable[[], Any]], device: str, rounds: int) -> list[float]:
    """Milliseconds of each call, the median over interleaved rounds. On CUDA a sample is several
    calls in a row, as the layers of a model are."""
    taken: list[list[float]] = [[] for _ in calls]
    repeat = 4 if device == "cuda" else 1
    for i in range(rounds + 3):  # the first three warm up
        for call, times in zip(calls, taken, strict=True):
            if device == "cuda":
                torch.cuda.synchronize()
                call()  # keeps the GPU busy while the first timed call is launched
                event: Any = torch.cuda.Event
                begin, end = event(enable_timing=True), event(enable_timing=True)
                begin.record()
                for _ in range(repeat):
                    call()
                end.record()
                end.synchronize()
                spent = begin.elapsed_time(end)
            else:
                start = time.perf_counter()
                call()
                spent = 1e3 * (time.perf_counter() - start)
            if i >= 3:
                times.append(spent / repeat)
    return [median(times) for times in taken]


def rope_cost(
    *,
    device: str = "cuda",
    dtype: torch.dtype = torch.bfloat16,
    batch: int = 8,
    heads: int = 16,
    tokens: int = 4096,
    head_dim: int = 64,
    rounds: int = 30,
) -> list[Row]:
    """Rows for plain and rotated attention, bidirectional and causal: what, the kernel, forward_ms,
    both_ms (forward and backward) and ratio, both_ms over that without RoPE. Tensors are
    [batch, tokens, heads, head_dim], as projections produce them, viewed heads first."""
    rope = rope_text({"head_dim": head_dim, "pairing": "half", "theta": 10000.0})
    shape = (batch, tokens, heads, head_dim)
    q, k, v = (
        torch.randn(shape, device=device, dtype=dtype).transpose(1, 2).requires_grad_()
        for _ in range(3)
    )
    grad = torch.randn(shape, device=device, dtype=dtype).transpose(1, 2)
    rows: list[Row] = []
    for causal in (False, True):

        def plain(causal: bool = causal) -> Tensor:
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        def rotated(causal: bool = causal) -> Tensor:
            return attend(q, k, v, rope=rope, causal=causal)

        def both(forward: Callable[[], Tensor]) -> Callable[[], Any]:
            return lambda: torch.autograd.grad(forward(), (q, k, v), grad)

        calls: list[Callable[[], Any]] = [plain, rotated, both(plain), both(rotated)]
        one, with_rope, one_both, with_rope_both = _times(calls, device, rounds)
        mask = "causal" if causal else "bidirectional"
        backend = attention_backend(q, k, v, causal=causal)
        for what, forward_ms, both_ms in (
            (f"{mask}, no RoPE", one, one_both),
            (f"{mask}, RoPE", with_rope, with_rope_both),
        ):
            rows.append(
                {
                    "what": what,
                    "backend": backend,
                    "forward_ms": forward_ms,
                    "both_ms": both_ms,
                    "ratio": both_ms / one_both,
                }
            )
    return rows
