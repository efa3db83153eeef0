# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""qk_norm_rope and rope_append_kv on the GPU against a copy and against other ways, in one run.

    python bench/torch/bench_fused.py            # forward, backward, decoding steps, appends

Candidates:
    fused     rotary's operator
    rotate    rotary's rotate of q and k: no norm
    compiled  torch.compile of PyTorch's rms_norm, then the rotation by its formula
    eager     the same chain, not compiled, with gradients
    triton    a plain Triton kernel: a program for each head, cos and sin from a table
    copy      as many bytes read and written, no work
Bytes are those of the operator: what it must read and write. Candidates alternate; figures are
medians in microseconds and, in brackets, the share of the copy's speed. They are of the GPU, which
waits until the host has launched everything. "in a loop": calls one after the other, as a model
makes them, host time included where it is longer. Steps of 1 to 256 tokens are replayed in CUDA
graphs of 50 calls. Without a GPU small shapes run on the CPU, as a check.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import rotary.torch as rt

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SHAPES = {
    "A": (131072, 32, 8, 128),
    "B": (32768, 32, 8, 128),
    "C": (16384, 16, 16, 64),
    "D": (8192, 40, 8, 128),
}
DECODE_TOKENS = (1, 8, 64, 256)
GRAPH_CALLS = 50
LOOP_CALLS = 20
#: Until the GPU begins: longer than the host takes for the launches of any candidate.
SLEEP_CYCLES = {"training": 4_000_000, "backward": 4_000_000}
PAGE = 16
Call = Callable[[], object]

if triton is not None:

    @triton.jit
    def norm_rotate_kernel(
        x_ptr,
        out_ptr,
        w_ptr,
        cos_ptr,
        sin_ptr,
        heads,
        eps,
        half: tl.constexpr,
        paired: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        pair = tl.arange(0, half)
        first = pair * 2 if paired else pair
        second = first + (1 if paired else half)
        x = tl.load(x_ptr + row * 2 * half + first).to(tl.float32)
        y = tl.load(x_ptr + row * 2 * half + second).to(tl.float32)
        scale = tl.rsqrt((tl.sum(x * x) + tl.sum(y * y)) / (2 * half) + eps)
        x = (x * scale * tl.load(w_ptr + first)).to(x_ptr.dtype.element_ty).to(tl.float32)
        y = (y * scale * tl.load(w_ptr + second)).to(x_ptr.dtype.element_ty).to(tl.float32)
        c = tl.load(cos_ptr + row // heads * half + pair)
        s = tl.load(sin_ptr + row // heads * half + pair)
        tl.store(out_ptr + row * 2 * half + first, (x * c - y * s).to(out_ptr.dtype.element_ty))
        tl.store(out_ptr + row * 2 * half + second, (y * c + x * s).to(out_ptr.dtype.element_ty))


class Case:
    def __init__(
        self, tokens: int, heads: int, kv_heads: int, head_dim: int, pairing: str, device: str
    ) -> None:
        self.device = device
        self.pairing = pairing
        self.rope = rt.rope_text(
            {"head_dim": head_dim, "rotary_dim": head_dim, "theta": 5e5, "pairing": pairing}
        )

        def heads_of(count: int) -> Tensor:
            return torch.randn(tokens, count, head_dim, device=device).bfloat16()

        self.q, self.k, self.v = heads_of(heads), heads_of(kv_heads), heads_of(kv_heads)
        self.grads = [heads_of(heads), heads_of(kv_heads)]
        self.weights = [torch.randn(head_dim, device=device).bfloat16() for _ in range(2)]
        self.positions = torch.arange(tokens, device=device)
        angles = torch.outer(
            self.positions.double(),
            5e5 ** (-torch.arange(0, head_dim, 2, device=device).double() / head_dim),
        )
        self.cos, self.sin = angles.cos().float(), angles.sin().float()
        pages = -(-tokens // PAGE) + 8
        self.caches = torch.zeros(2, pages, PAGE, kv_heads, head_dim, device=device).bfloat16()
        slots = torch.randperm(pages, device=device)[:, None] * PAGE
        self.slots = (slots + torch.arange(PAGE, device=device)).flatten()[:tokens].contiguous()

    def bytes_of_qk(self) -> int:
        return 2 * (self.q.numel() + self.k.numel())

    def unfused(self, x: Tensor, weight: Tensor) -> Tensor:
        y = F.rms_norm(x, x.shape[-1:], weight.to(x.dtype), 1e-6).float()
        c, s = self.cos[:, None], self.sin[:, None]
        if self.pairing == "half":
            a, b = y.chunk(2, -1)
            return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)
        a, b = y[..., ::2], y[..., 1::2]
        return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2).to(x.dtype)

    def fused(self, q: Tensor, k: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        return rt.qk_norm_rope(q, k, *weights, rope=self.rope, positions=self.positions)

    def compiled(self) -> Callable[[Tensor, Tensor], Tensor]:
        torch._dynamo.reset()  # after eight shapes torch.compile would leave further ones eager
        return torch.compile(self.unfused, dynamic=False)

    def copies(self, times: int) -> Call:
        """Reads and writes `times` times the bytes of q and k, half of them each."""
        size = times * (self.q.numel() + self.k.numel()) // 2
        source = torch.empty(size, device=self.device, dtype=torch.bfloat16)
        to = torch.empty_like(source)
        return lambda: to.copy_(source)

    def forward(self) -> dict[str, Call]:
        calls: dict[str, Call] = {
            "fused": lambda: self.fused(self.q, self.k, self.weights),
            "rotate": lambda: rt.rotate(self.q, self.k, rope=self.rope, positions=self.positions),
        }
        if self.device == "cuda":
            compiled = self.compiled()
            calls["compiled"] = lambda: [
                compiled(x, w) for x, w in zip((self.q, self.k), self.weights)
            ]
        if triton is not None and self.device == "cuda":
            calls["triton"] = self.triton_forward
        calls["copy"] = self.copies(2)
        return calls

    def triton_forward(self) -> list[Tensor]:
        results = []
        for x, w in zip((self.q, self.k), self.weights):
            out = torch.empty_like(x)
            norm_rotate_kernel[(x.shape[0] * x.shape[1],)](
                x, out, w, self.cos, self.sin, x.shape[1], 1e-6,
                half=x.shape[2] // 2, paired=self.pairing != "half", num_warps=1,
            )  # fmt: skip
            results.append(out)
        return results

    def training(self, *, with_forward: bool, eager: bool) -> dict[str, Call]:
        """Gradients of q, k and both weights; three tensors are read or written, not two."""
        leaves = [x.detach().requires_grad_() for x in (self.q, self.k, *self.weights)]

        def of(chain: Callable[[], Sequence[Tensor]]) -> Call:
            if with_forward:
                return lambda: torch.autograd.grad(chain(), leaves, self.grads)
            outputs = chain()
            return lambda: torch.autograd.grad(outputs, leaves, self.grads, retain_graph=True)

        calls = {"fused": of(lambda: self.fused(*leaves[:2], leaves[2:]))}
        if self.device == "cuda":
            compiled = self.compiled()
            calls["compiled"] = of(lambda: [compiled(x, w) for x, w in zip(leaves[:2], leaves[2:])])
        if eager:
            calls["eager"] = of(
                lambda: [self.unfused(x, w) for x, w in zip(leaves[:2], leaves[2:])]
            )
        calls["copy"] = self.copies(5 if with_forward else 3)
        return calls

    def append(self, norm: str) -> dict[str, Call]:
        given = {"norm": norm}
        if norm != "none":
            given |= {"q_weight": self.weights[0], "k_weight": self.weights[1]}
        everything = torch.cat([x.flatten() for x in (self.q, self.k, self.v)])
        to = torch.empty_like(everything)
        return {
            "fused": lambda: rt.rope_append_kv(
                self.q, self.k, self.v, *self.caches.unbind(), self.slots, rope=self.rope,
                positions=self.positions, **given,
            ),
            "rotate": lambda: rt.rotate(
                self.q, self.k, rope=self.rope, positions=self.positions
            ),
            "copy": lambda: to.copy_(everything),
        }  # fmt: skip


def in_graph(call: Call) -> Call:
    """A graph of GRAPH_CALLS calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            call()
    return graph.replay


def measure(
    calls: dict[str, Call], device: str, rounds: int, sleep: int = 400_000
) -> dict[str, float]:
    """Medians in microseconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 3):
        for name, call in calls.items():
            if device == "cuda":
                events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                torch.cuda._sleep(sleep)  # so that the host is ahead of the GPU
                events[0].record()
                call()
                events[1].record()
                events[1].synchronize()
                times[name].append(events[0].elapsed_time(events[1]) * 1e3)
            else:
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: statistics.median(all_[3:]) for name, all_ in times.items()}


def in_a_loop(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Microseconds for each of successive calls; a candidate's rounds follow one another."""
    times = {}
    for name, call in calls.items():
        took = []
        for _ in range(max(3, rounds // 3)):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(LOOP_CALLS):
                call()
            torch.cuda.synchronize()
            took.append((time.perf_counter() - begin) * 1e6 / LOOP_CALLS)
        times[name] = statistics.median(took)
    return times


def report(title: str, times: dict[str, float], calls: int = 1) -> None:
    texts = [f"{name} {t / calls:.2f} ({times['copy'] / t:.3f})" for name, t in times.items()]
    print(f"{title:<40}" + "  ".join(texts), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--shapes", nargs="+", default=sorted(SHAPES), choices=sorted(SHAPES))
    parser.add_argument("--without", nargs="*", default=[], help="candidates to leave out")
    parser.add_argument("--scale", type=int, default=1, help="so many times fewer tokens")
    options = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    scale = options.scale if device == "cuda" else max(options.scale, 1024)
    for name in options.shapes:
        tokens, *rest = SHAPES[name]
        for pairing in ("half", "interleaved"):
            case = Case(max(1, tokens // scale), *rest, pairing, device)

            def run(what: str, calls: dict[str, Call]) -> None:
                calls = {k: v for k, v in calls.items() if k not in options.without}
                title = f"{what} {name} {pairing}"  # noqa: B023
                sleep = SLEEP_CYCLES.get(what, 400_000)
                report(title, measure(calls, device, options.rounds, sleep))
                if device == "cuda" and what in ("forward", "training"):
                    report(f"  in a loop, {title}", in_a_loop(calls, options.rounds))

            run("forward", case.forward())
            run("backward", case.training(with_forward=False, eager=False))
            run("training", case.training(with_forward=True, eager=True))
            run("append", case.append("none"))
            run("append with norm", case.append("rms"))
    for tokens in DECODE_TOKENS if device == "cuda" else DECODE_TOKENS[:1]:
        case = Case(tokens, 32, 8, 128, "half", device)
        for what, calls in {
            "norm": {k: v for k, v in case.forward().items() if k != "compiled"},
            "append": case.append("none"),
        }.items():
            if device == "cuda":
                calls = {k: in_graph(v) for k, v in calls.items()}
            times = measure(calls, device, options.rounds)
            report(f"{what} of {tokens} tokens", times, GRAPH_CALLS if device == "cuda" else 1)


if __name__ == "__main__":
    main()
