# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The operators for PyTorch's stable ABI beside those built for this PyTorch, in one process.

    python bench/torch/bench_stable_abi.py build/pytorch/stable/librotary_torch_stable.so

Medians of interleaved rounds, in microseconds per call: a decoding step, whose cost is the host's,
and a prefill, whose cost is the kernel's; under torch.no_grad, with grad mode on for tensors that
need no gradient, and with a backward pass. On CUDA the
former is the time until the last call returns, the latter until the GPU has finished.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

import rotary
import rotary.torch
from rotary.torch.functional import _operator
from rotary.torch.stable_abi import Operators

TEXT = rotary.torch.rope_text(rotary.Rope(head_dim=128, theta=5e5, pairing="half"))
TOKENS = {"decoding step": 1, "prefill of 2,048": 2048}


def timed(
    call: Callable[[], object], repeats: int, clock: Callable[[], float], wait: bool
) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begin = clock()
    for _ in range(repeats):
        call()
    if wait:
        torch.cuda.synchronize()
    return (clock() - begin) / repeats * 1e6


def backward(rotate: Callable[..., object], tensors: tuple[torch.Tensor, ...]) -> None:
    leaves = [x.detach().requires_grad_() for x in tensors]
    q, k = rotate(leaves)
    torch.autograd.grad((q, k), leaves, tensors)


def candidates(
    stable: Operators, tensors: tuple[torch.Tensor, ...], table: tuple[torch.Tensor, ...]
) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """What is called: by the present build, by the other; by the same function of rotary.torch."""
    rest = (TEXT, None, None, 7, -3)
    by_table = (*table, TEXT, -3)
    ops = torch.ops.rotary.rotate.default, stable.ops.rotate.default

    def functions(name: str) -> tuple[Callable[..., object], Callable[..., object]]:
        return _operator(name), _operator(name, stable.ops, stable)

    rotate, in_place, table_rotate = map(functions, ("rotate", "rotate_", "rotate_table"))
    return {
        "function": (lambda: rotate[0](tensors, *rest), lambda: rotate[1](tensors, *rest)),
        "grad mode on": (lambda: rotate[0](tensors, *rest), lambda: rotate[1](tensors, *rest)),
        "torch.ops": (lambda: ops[0](tensors, *rest), lambda: ops[1](tensors, *rest)),
        "in place": (
            lambda: in_place[0](tensors, *rest),
            lambda: in_place[1](tensors, *rest),
        ),
        "table": (
            lambda: table_rotate[0](tensors, *by_table),
            lambda: table_rotate[1](tensors, *by_table),
        ),
        "with backward": (
            lambda: backward(lambda x: rotate[0](tuple(x), *rest), tensors),
            lambda: backward(lambda x: rotate[1](tuple(x), *rest), tensors),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path, help="librotary_torch_stable.so")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu-time", action="store_true", help="of this thread, on a busy machine")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    on_cuda = options.device == "cuda"
    clock = time.thread_time if options.cpu_time else time.perf_counter
    stable = Operators(options.library, "rotary_stable")
    where = torch.cuda.get_device_name() if on_cuda else f"{torch.get_num_threads()} threads"
    print(f"PyTorch {torch.__version__}, {where}, us per call")
    print(f"{'':32} {'this PyTorch':>12} {'stable ABI':>12} {'ratio':>6}")
    for what, tokens in TOKENS.items():
        tensors = tuple(torch.randn(1, tokens, h, 128, device=options.device) for h in (32, 8))
        angles = torch.randn(tokens, 64, device=options.device)
        repeats = max(200 if on_cuda else 2, 2000 // tokens)
        wait = on_cuda and tokens > 1
        for name, pair in candidates(stable, tensors, (angles.cos(), angles.sin())).items():
            with torch.set_grad_enabled(name in ("grad mode on", "with backward")):
                rounds = [
                    [timed(call, repeats, clock, wait) for call in pair]
                    for _ in range(options.rounds)
                ]
            this, other = (statistics.median(column) for column in zip(*rounds))
            print(f"{what + ', ' + name:32} {this:12.1f} {other:12.1f} {other / this:6.2f}")


if __name__ == "__main__":
    main()
