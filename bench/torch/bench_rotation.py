# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation against the code of transformers and torch.compile, in one run.

    python bench/torch/bench_rotation.py            # on the GPU where there is one, else on the CPU
    python bench/torch/bench_rotation.py --json     # the same rows, one per line, for a program

Times rotary's operator, transformers' own function and torch.compile of it on the q and k of a
Llama-like layer, forward and backward, beside a copy of the same bytes; what a call of a decoding
step costs the host; and a whole model before and after rotary.torch.patch. Candidates are
interleaved, so that noise of the machine reaches them all; figures are medians. On CUDA also the
kernels themselves, called through the operators in a CUDA graph (rotation_kernels.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rotation_kernels
import torch
import transformers
from transformers.models.llama import modeling_llama as llama

import rotary
import rotary.torch

HEAD_DIM = 128
THETA = 5e5
Tensors = Sequence[torch.Tensor]


@dataclass
class Row:
    """One measurement; times in microseconds."""

    what: str
    dtype: str
    candidate: str
    us: float
    over: float = 0.0  # times as long as rotary's
    tokens_per_s: float = 0.0
    peak_mib: float = 0.0
    of_copy: float = 0.0  # fraction of the rate of a large copy


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(
    candidates: dict[str, Callable[[], object]], device: str, rounds: int
) -> dict[str, float]:
    """Median microseconds of each, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for name in candidates:  # compiles, allocates
        candidates[name]()
        candidates[name]()
    for i in range(rounds):
        names = list(candidates)
        for name in names[i % len(names) :] + names[: i % len(names)]:
            synchronize(device)
            begin = time.perf_counter()
            candidates[name]()
            synchronize(device)
            times[name].append(1e6 * (time.perf_counter() - begin))
    return {name: statistics.median(samples) for name, samples in times.items()}


class Layer:
    """The q and k of one layer, as in transformers: heads first, by strides."""

    def __init__(self, tokens: int, dtype: torch.dtype, device: str) -> None:
        torch.manual_seed(0)
        self.q = self._heads(tokens, 32, dtype, device)
        self.k = self._heads(tokens, 8, dtype, device)
        self.gradients = [torch.randn_like(self.q), torch.randn_like(self.k)]
        config = transformers.LlamaConfig(
            head_dim=HEAD_DIM, rope_parameters={"rope_type": "default", "rope_theta": THETA}
        )
        ids = torch.arange(tokens, device=device)[None]
        embedding = llama.LlamaRotaryEmbedding(config).to(device)
        self.cos, self.sin = embedding(self.q, ids)
        rope = rotary.Rope(head_dim=HEAD_DIM, theta=THETA, pairing="half")
        self.text = rotary.torch.rope_text(rope)
        self.compiled = torch.compile(self.eager)

    @staticmethod
    def _heads(tokens: int, heads: int, dtype: torch.dtype, device: str) -> torch.Tensor:
        x = torch.randn(1, tokens, heads, HEAD_DIM, device=device, dtype=dtype)
        return x.transpose(1, 2).requires_grad_()

    def eager(self) -> Any:
        return llama.apply_rotary_pos_emb(self.q, self.k, self.cos, self.sin)

    def ours(self) -> Any:
        return rotary.torch.rotate(self.q, self.k, rope=self.text, token_dim=-2)

    def in_place(self) -> Any:
        q, k = self.q.detach(), self.k.detach()
        return rotary.torch.rotate_(q, k, rope=self.text, token_dim=-2)

    def copy(self) -> Tensors:
        return self.q.clone(), self.k.clone()

    def forward(self) -> dict[str, Callable[[], object]]:
        def silent(call: Callable[[], Tensors]) -> Callable[[], object]:
            def run() -> object:
                with torch.no_grad():
                    return call()

            return run

        calls = {**self.calls(), "rotary, in place": self.in_place}
        return {name: silent(call) for name, call in calls.items()}

    def backward(self) -> dict[str, Callable[[], object]]:
        def back(call: Callable[[], Tensors]) -> Callable[[], object]:
            results = call()
            return lambda: torch.autograd.grad(
                results, (self.q, self.k), self.gradients, retain_graph=True
            )

        return {name: back(call) for name, call in self.calls().items()}

    def calls(self) -> dict[str, Callable[[], Tensors]]:
        return {
            "rotary": self.ours,
            "transformers": self.eager,
            "torch.compile": self.compiled,
            "copy": self.copy,
        }


def layer_rows(tokens: int, dtype: torch.dtype, device: str, rounds: int) -> list[Row]:
    """One layer's q and k: 1 x tokens x (32+8) x 128."""
    layer = Layer(tokens, dtype, device)
    name = str(dtype).removeprefix("torch.")
    rows = []
    for what, candidates in (("forward", layer.forward()), ("backward", layer.backward())):
        times = measure(candidates, device, rounds)
        ours = times["rotary"]
        rows += [Row(what, name, candidate, us, us / ours) for candidate, us in times.items()]
    return rows


def host_rows(device: str, rounds: int) -> list[Row]:
    """Host time of a decoding step of q and k, launch included: back-to-back calls without
    synchronisation."""
    q = torch.randn(1, 32, 1, HEAD_DIM, device=device, dtype=torch.bfloat16)
    k = torch.randn(1, 8, 1, HEAD_DIM, device=device, dtype=torch.bfloat16)
    leaves = [x.clone().requires_grad_() for x in (q, k)]
    text = rotary.torch.rope_text(rotary.Rope(head_dim=HEAD_DIM, theta=THETA, pairing="half"))
    at = torch.zeros(1, 1, dtype=torch.int64, device=device)
    op, op_ = torch.ops.rotary.rotate.default, torch.ops.rotary.rotate_.default
    module = rotary.torch.RotaryEmbedding(text, token_dim=-2)
    calls: dict[str, Callable[[], object]] = {
        "torch.ops.rotary.rotate_": lambda: op_([q, k], text, at, None, 0, -2),
        "torch.ops.rotary.rotate": lambda: op([q, k], text, at, None, 0, -2),
        "rotary.torch.rotate_": lambda: rotary.torch.rotate_(
            q, k, rope=text, positions=at, token_dim=-2
        ),
        "rotary.torch.rotate": lambda: rotary.torch.rotate(
            q, k, rope=text, positions=at, token_dim=-2
        ),
        "RotaryEmbedding": lambda: module(q, k, at),
        "rotate, with grad": lambda: rotary.torch.rotate(
            *leaves, rope=text, positions=at, token_dim=-2
        ),
        "q.add_(q)": lambda: q.add_(q),
        "q + q": lambda: q + q,
    }
    calls_a_round = 200

    def many(call: Callable[[], object]) -> float:
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(calls_a_round):
            call()
        return 1e6 * (time.perf_counter() - begin) / calls_a_round

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(many(call))
            synchronize(device)
    return [Row("host", "bfloat16", name, statistics.median(t)) for name, t in times.items()]


def tiny_llama(dtype: torch.dtype, device: str, small: bool) -> Any:
    """Eight layers; of a small size for a CPU."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(  # type: ignore[call-arg]
        vocab_size=4096,
        hidden_size=512 if small else 4096,
        intermediate_size=1024 if small else 11008,
        num_hidden_layers=8,
        num_attention_heads=8 if small else 32,
        num_key_value_heads=2 if small else 8,
        head_dim=64 if small else HEAD_DIM,
        attn_implementation="sdpa",
    )
    make: Any = transformers.AutoModelForCausalLM.from_config
    with torch.device(device):  # a GPU fills weights faster
        return make(config, dtype=dtype)


def peak_mib(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0


def model_rows(dtype: torch.dtype, device: str, rounds: int) -> list[Row]:
    """Forward and backward of a whole model, before and after rotary.torch.patch."""
    small = device == "cpu"
    model = tiny_llama(dtype, device, small)
    shape = (1, 512) if small else (4, 4096)
    ids = torch.randint(0, 4096, shape, device=device)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(ids, labels=ids).loss.backward()

    def patched() -> None:
        with rotary.torch.patch(model):
            step()

    peaks = {}
    for name, call in (("transformers", step), ("rotary", patched)):
        call()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        call()
        peaks[name] = peak_mib(device)

    times: dict[str, list[float]] = {"transformers": [], "rotary": []}
    for _ in range(rounds):
        times["transformers"].append(measure({"": step}, device, 1)[""])
        with rotary.torch.patch(model):
            times["rotary"].append(measure({"": step}, device, 1)[""])
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    name = str(dtype).removeprefix("torch.")
    return [
        Row(
            "model",
            name,
            candidate,
            us,
            us / medians["rotary"],
            tokens_per_s=1e6 * ids.numel() / us,
            peak_mib=peaks[candidate],
        )
        for candidate, us in medians.items()
    ]


def show(rows: list[Row], device: str, tokens: int) -> None:
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}, ", end="")
    print(f"transformers {transformers.__version__}")
    print(f"q and k of 1 x {tokens} tokens, 32 and 8 heads of 128; a model of 8 layers")
    print(f"\n{'':10}{'':10}{'':26}{'us':>12}{'over rotary':>13}", end="")
    print(f"{'of copy':>9}{'tokens/s':>12}{'peak MiB':>10}")
    for row in rows:
        over = f"{row.over:.2f}" if row.over else ""
        of_copy = f"{row.of_copy:.3f}" if row.of_copy else ""
        rate = f"{row.tokens_per_s:,.0f}" if row.tokens_per_s else ""
        peak = f"{row.peak_mib:,.0f}" if row.peak_mib else ""
        us = f"{row.us:,.0f}" if row.us >= 100 else f"{row.us:.2f}"
        print(
            f"{row.what:10}{row.dtype:10}{row.candidate:26}"
            f"{us:>12}{over:>13}{of_copy:>9}{rate:>12}{peak:>10}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="default: cuda where there is one"
    )
    parser.add_argument("--tokens", type=int, default=4096, help="of the layer (4096)")
    parser.add_argument("--rounds", type=int, default=21, help="repetitions of each (21)")
    parser.add_argument("--threads", type=int, help="of PyTorch on the CPU")
    parser.add_argument("--no-model", action="store_true", help="without the whole model")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--save", metavar="FILE", help="those lines as well, into a file")
    options = parser.parse_args(arguments)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    rows: list[Row] = []
    # Backward runs repeatedly over one graph.
    with torch._functorch.config.patch(donated_buffer=False):
        for dtype in (torch.float32, torch.bfloat16):
            rows += layer_rows(options.tokens, dtype, device, options.rounds)
        rows += host_rows(device, options.rounds)
        if device == "cuda":
            rows += [Row(**fields) for fields in rotation_kernels.measure_all(options.rounds)]
        if not options.no_model:
            dtype = torch.float32 if device == "cpu" else torch.bfloat16
            rows += model_rows(dtype, device, max(3, options.rounds // 2))
    lines = "".join(json.dumps(asdict(row)) + "\n" for row in rows)
    if options.save:
        Path(options.save).write_text(lines)
    if options.json:
        print(lines, end="")
    else:
        show(rows, device, options.tokens)


if __name__ == "__main__":
    main()
