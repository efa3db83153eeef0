# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of attention against the length of the sequence, in one run.

    python bench/torch/bench_attention.py                         # on the GPU where there is one
    python bench/torch/bench_attention.py --json FILE --plot FILE
    python bench/torch/bench_attention.py --from FILE --plot FILE     # shows an earlier run

Causal softmax attention of PyTorch's fused kernels, without and with RoPE, beside the variants of
linear attention, forward and backward. Every figure is a median; a candidate drops out where a
longer sequence would take more than --seconds a call, or more memory than there is. On CUDA, what
RoPE adds to softmax attention follows.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from attention_cost import rope_cost
from torch import Tensor

from rotary.torch import (
    attend,
    attention_backend,
    linear_attend,
    orthogonal_features,
    rope_text,
)
from rotary.torch.linear_attention import default_features

ops = torch.ops.rotary

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass
class Row:
    """One candidate at one length. Tokens are those of all sequences of the batch."""

    candidate: str
    tokens: int
    forward_ms: float
    both_ms: float
    ns_per_token: float  # forward and backward
    peak_mib: float  # forward and backward, beyond the inputs


@dataclass
class Run:
    machine: str
    device: str
    torch: str
    dtype: str
    batch: int
    heads: int
    head_dim: int
    softmax_backend: str = ""
    rows: list[Row] = field(default_factory=list)
    rope_cost: list[dict[str, Any]] = field(default_factory=list)
    rounds: int = 15  # at most, of every figure


def all_pairs(q: Tensor, k: Tensor, v: Tensor, rope: str) -> Tensor:
    """The formula of linear_attend() with every weight in memory: O(n^2)."""
    c, e = ops.elu_plus_one(q), ops.elu_plus_one(k)
    a, b = ops.rotate([c, e], rope, None, None, 0, -2)
    above, below = (a @ b.mT).tril(), (c @ e.mT).tril()
    result: Tensor = above @ v / below.sum(-1, keepdim=True)
    return result


def candidates(head_dim: int, device: str) -> dict[str, Attention]:
    rope = rope_text({"head_dim": head_dim, "pairing": "half", "theta": 10000.0})
    features = default_features(head_dim)
    wide = rope_text({"head_dim": features, "pairing": "half", "theta": 10000.0})
    drawn = orthogonal_features(features, head_dim).to(device)

    def softmax(**options: Any) -> Attention:
        return lambda q, k, v: attend(q, k, v, causal=True, **options)

    def linear(**options: Any) -> Attention:
        return lambda q, k, v: linear_attend(q, k, v, causal=True, **options)

    return {
        "softmax": softmax(),
        "softmax, RoPE": softmax(rope=rope),
        "linear, elu": linear(rope=rope),
        "linear, relu": linear(rope=rope, feature_map="relu"),
        "linear, cosine": linear(rope=rope, variant="cosine"),
        "linear, rotated": linear(rope=rope, variant="rotated"),
        "linear, before": linear(rope=rope, variant="before"),
        f"linear, FAVOR+ {features}": linear(rope=wide, feature_map="favor", projection=drawn),
        "linear, all pairs": lambda q, k, v: all_pairs(q, k, v, rope),
    }


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def median_ms(call: Callable[[], Any], device: str, seconds: float, max_rounds: int) -> float:
    """After a warm-up, of as many rounds as fit into `seconds`: 3 to `max_rounds`. On CUDA a round
    is 20 ms of back-to-back calls, as the layers of a model are."""

    def once(calls: int) -> float:
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize(device)
        return 1e3 * (time.perf_counter() - begin) / calls

    once(1)
    first = max(once(1), 1e-3)
    calls = max(1, round(20.0 / first)) if device == "cuda" else 1
    rounds = int(min(max_rounds, max(3, 1e3 * seconds / (calls * first))))
    return statistics.median(once(calls) for _ in range(rounds))


def resident_mib(name: str) -> float:
    """VmRSS or VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"[bench_attention] /proc/self/status has no {name}")


def give_back_memory() -> None:
    """Returns freed memory to the system, so that using it again counts."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def peak_mib(call: Callable[[], Any], device: str) -> float:
    """Peak memory of a call beyond the present: allocated memory on CUDA; on the CPU that of the
    process, 0 where the system does not tell."""
    if device == "cuda":
        torch.cuda.synchronize()
        before: float = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    give_back_memory()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = resident_mib("VmRSS")
        call()
        return max(0.0, resident_mib("VmHWM") - before)
    except OSError:
        return 0.0


def measure(name: str, attention: Attention, tokens: int, run: Run, seconds: float) -> Row:
    dtype = getattr(torch, run.dtype)
    shape = (run.batch, run.heads, tokens, run.head_dim)
    q, k, v, grad = (torch.randn(shape, device=run.device, dtype=dtype) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            attention(q, k, v)

    def both() -> None:
        torch.autograd.grad(attention(q, k, v), (q, k, v), grad)

    peak = peak_mib(both, run.device)
    both_ms = median_ms(both, run.device, seconds, run.rounds)
    forward_ms = median_ms(forward, run.device, seconds, run.rounds)
    per_token = 1e6 * both_ms / (run.batch * tokens)
    return Row(name, tokens, forward_ms, both_ms, per_token, peak)


def machine_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{name}, {torch.get_num_threads()} threads"


def bench(run: Run, lengths: Sequence[int], only: str, seconds: float) -> None:
    """Fills run.rows; reports progress on stderr."""
    chosen = candidates(run.head_dim, run.device)
    chosen = {name: call for name, call in chosen.items() if only in name}
    dropped: set[str] = set()
    for tokens in lengths:
        for name, attention in chosen.items():
            if name in dropped:
                continue
            print(f"{tokens:>9,} tokens: {name} ...", file=sys.stderr, flush=True)
            try:
                row = measure(name, attention, tokens, run, seconds)
            except (torch.OutOfMemoryError, MemoryError):
                dropped.add(name)
                print(f"{tokens:>9,} tokens: {name}: out of memory", file=sys.stderr)
                torch.cuda.empty_cache()
                continue
            run.rows.append(row)
            quadratic = not name.startswith("linear") or "pairs" in name
            if row.both_ms * (4.0 if quadratic else 2.0) > 1e3 * seconds:
                dropped.add(name)


def spread(run: Run, name: str) -> tuple[str, float]:
    """Of a candidate: the lengths it has, and its longest time per token over its shortest."""
    rows = sorted((row for row in run.rows if row.candidate == name), key=lambda row: row.tokens)
    times = [row.ns_per_token for row in rows]
    return f"{rows[0].tokens:,} to {rows[-1].tokens:,}", max(times) / min(times)


def show(run: Run) -> None:
    print(f"{run.machine}, PyTorch {run.torch}")
    print(
        f"causal, batch {run.batch}, {run.heads} heads of {run.head_dim}, {run.dtype}; "
        f"softmax by {run.softmax_backend or 'PyTorch'}"
    )
    print(f"\n{'':22}{'tokens':>10}{'forward ms':>13}{'both ms':>12}{'ns/token':>11}{'MiB':>11}")
    for row in sorted(run.rows, key=lambda r: r.tokens):
        print(
            f"{row.candidate:22}{row.tokens:10,}{row.forward_ms:13.3f}{row.both_ms:12.3f}"
            f"{row.ns_per_token:11.1f}{row.peak_mib:11,.0f}"
        )
    spreads = {name: spread(run, name) for name in dict.fromkeys(r.candidate for r in run.rows)}
    print("\nlongest time a token over the shortest, all lengths:")
    for name, (lengths, ratio) in spreads.items():
        if name.startswith("linear") and "pairs" not in name:
            print(f"{name:22}{lengths:>20}{ratio:10.3f}")
    if run.rope_cost:
        print("\nRoPE beside fused softmax attention, batch 8, 16 heads of 64, 4096 tokens:")
    for cost in run.rope_cost:
        print(
            f"  {cost['what']:24}forward {cost['forward_ms']:7.3f} ms, both {cost['both_ms']:7.3f} "
            f"ms, {cost['ratio']:.3f} of that without"
        )


def plot(run: Run, path: str) -> None:
    """Time per token and memory against length, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6))
    for name in dict.fromkeys(row.candidate for row in run.rows):
        rows = [row for row in run.rows if row.candidate == name]
        at = [row.tokens for row in rows]
        style = "--" if name.startswith("softmax") else (":" if "pairs" in name else "-")
        line = {"linestyle": style, "marker": "o", "markersize": 3.5}
        left.plot(at, [row.ns_per_token for row in rows], label=name, **line)
        right.plot(at, [row.peak_mib for row in rows], label=name, **line)
    for axes, title in ((left, "forward and backward, ns a token"), (right, "memory, MiB")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("tokens")
        axes.set_title(title, fontsize=10)
        axes.grid(True, which="both", alpha=0.25)
        axes.set_xticks(sorted({row.tokens for row in run.rows}))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1024:.0f}k" if x >= 1024 else f"{x:.0f}")
    right.legend(fontsize=8)
    figure.suptitle(
        f"{run.machine}: causal attention, batch {run.batch}, {run.heads} heads of "
        f"{run.head_dim}, {run.dtype}",
        fontsize=11,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def read(path: str) -> Run:
    fields = json.loads(Path(path).read_text())
    return Run(**{**fields, "rows": [Row(**row) for row in fields["rows"]]})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    add("--dtype", help="bfloat16 on CUDA, float32 on a CPU")
    add("--lengths", help="tokens, with commas between (4096 to 262144, on a CPU 256 to 16384)")
    add("--batch", type=int, help="sequences (8, on a CPU 1)")
    add("--heads", type=int, help="16, on a CPU 4")
    add("--head-dim", type=int, default=64, help="64")
    add("--only", default="", help="candidates whose name has this text in it")
    add(
        "--seconds",
        type=float,
        default=1.0,
        help="for each figure, and the most of a call (1)",
    )
    add("--rounds", type=int, default=15, help="at most, for each figure (15, at least 3)")
    add("--threads", type=int, help="of PyTorch on the CPU")
    add("--json", metavar="FILE", help="writes the figures there")
    add("--plot", metavar="FILE", help="draws them there (matplotlib): .png or .svg")
    add("--from", dest="earlier", metavar="FILE", help="shows figures of --json, measures nothing")
    return parser


def _run(options: argparse.Namespace) -> Run:
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    large = device == "cuda"
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    run = Run(
        machine=machine_name(device),
        device=device,
        torch=str(torch.__version__),
        dtype=options.dtype or ("bfloat16" if large else "float32"),
        batch=options.batch or (8 if large else 1),
        heads=options.heads or (16 if large else 4),
        head_dim=options.head_dim,
        rounds=max(3, options.rounds),
    )
    powers = range(12, 19) if large else range(8, 15)
    lengths = [int(n) for n in options.lengths.split(",")] if options.lengths else []
    shape = (run.batch, run.heads, 256, run.head_dim)
    x = torch.empty(shape, device=device, dtype=getattr(torch, run.dtype))
    run.softmax_backend = attention_backend(x, x, x, causal=True)
    bench(run, lengths or [2**p for p in powers], options.only, options.seconds)
    if large:
        run.rope_cost = rope_cost(device=device)
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    run = read(options.earlier) if options.earlier else _run(options)
    show(run)
    if options.json:
        Path(options.json).write_text(json.dumps(asdict(run), indent=1) + "\n")
    if options.plot:
        plot(run, options.plot)


if __name__ == "__main__":
    main()
