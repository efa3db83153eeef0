#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Training RoFormer-base as a masked LM: `roformer bench`, a tuned model in PyTorch alone
(tuned_pytorch.py) and Hugging Face transformers compared.

All start from the same weights and use the same batches and the same training step: forward and
backward in bfloat16 over float32 parameters, clipping, AdamW with fused kernels, a learning rate
that warms up. Needs a GPU and transformers.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import RoFormerConfig, RoFormerForMaskedLM
from tuned_pytorch import TunedRoFormer, labelled_tokens, rotation_table

PEAK = {
    "NVIDIA H200": 989.0,
    "NVIDIA H100 80GB HBM3": 989.0,
}  # TFLOP/s in bfloat16, without sparsity
VOCABULARY = 50000
MASK = 103
RATE = 1e-4
RATE_WARMUP = 50  # steps of linear warm-up to RATE
CURVE_STEPS = 200


PEERS = {
    "tuned": "A tuned model in PyTorch alone (bench/roformer/tuned_pytorch.py):",
    "compile": "transformers:",
}


def make_batches(steps: int, rows: int, length: int, seed: int) -> dict[str, torch.Tensor]:
    """Tokens by Zipf's law; every other one follows from the one before; 15 % are masked."""
    g = torch.Generator().manual_seed(seed)
    chances = 1.0 / torch.arange(1, VOCABULARY - 1000 + 1, dtype=torch.float64)
    next_one = torch.randperm(VOCABULARY - 1000, generator=g)
    shape = (steps, rows, length)
    ids = torch.multinomial(chances, steps * rows * length, replacement=True, generator=g).view(
        shape
    )
    follows = torch.rand(shape, generator=g) < 0.5
    for t in range(1, length):
        ids[:, :, t] = torch.where(follows[:, :, t], next_one[ids[:, :, t - 1]], ids[:, :, t])
    ids += 1000
    masked = torch.rand(shape, generator=g) < 0.15
    labels = torch.where(masked, ids, -100)
    how = torch.rand(shape, generator=g)
    ids[masked & (how < 0.8)] = MASK
    anything = torch.randint(1000, VOCABULARY, shape, generator=g)
    ids = torch.where(masked & (how >= 0.9), anything, ids)
    return {"ids": ids, "labels": labels}


def make_model(folder: Path) -> None:
    torch.manual_seed(7)
    config = RoFormerConfig(vocab_size=VOCABULARY, max_position_embeddings=2048)
    RoFormerForMaskedLM(config).save_pretrained(folder)


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    decaying = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=RATE, fused=True)


def prepare_device() -> None:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch._dynamo.reset()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True


def train(
    model: torch.nn.Module,
    loss_of_step: Callable[[int], torch.Tensor],
    tokens: int,
    steps: int,
    warmup: int,
    *,
    mixed: bool,
) -> dict[str, object]:
    """Median speed of `steps` after `warmup`, memory, and the losses of all."""
    optimizer = optimizer_of(model)
    losses, times = [], []
    for step in range(warmup + steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / RATE_WARMUP)
        if step >= warmup:
            torch.cuda.synchronize()
            times.append(time.perf_counter())
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    torch.cuda.synchronize()
    times.append(time.perf_counter())
    each = sorted(b - a for a, b in pairwise(times))
    return {
        "tokens_per_second": tokens / each[len(each) // 2],
        "peak_memory": torch.cuda.max_memory_allocated(),
        "losses": torch.stack(losses).float().tolist(),
    }


def run_transformers(
    folder: Path,
    batches: dict[str, torch.Tensor],
    steps: int,
    warmup: int,
    *,
    mode: str,
    dropout: float | None = None,
) -> dict[str, object]:
    """`mode`: compile, eager, or tf32 (without mixed precision)."""
    prepare_device()
    options = (
        {}
        if dropout is None
        else {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    )
    model = (
        RoFormerForMaskedLM.from_pretrained(folder, dtype=torch.float32, **options).cuda().train()
    )
    call = torch.compile(model, dynamic=False) if mode == "compile" else model
    ids, labels = batches["ids"].cuda(), batches["labels"].cuda()

    def loss_of_step(step: int) -> torch.Tensor:
        at = step % len(ids)
        return call(input_ids=ids[at], labels=labels[at]).loss

    return train(model, loss_of_step, ids[0].numel(), steps, warmup, mixed=mode != "tf32")


def run_tuned(
    folder: Path, batches: dict[str, torch.Tensor], steps: int, warmup: int
) -> dict[str, object]:
    """The tuned model of PyTorch alone, under torch.compile."""
    prepare_device()
    config = RoFormerConfig.from_pretrained(folder)
    model = TunedRoFormer(config)
    model.load(RoFormerForMaskedLM.from_pretrained(folder, dtype=torch.float32).state_dict())
    model.cuda().train()
    call = torch.compile(model, dynamic=False)
    ids = batches["ids"].cuda()
    indices, labels = (x.cuda() for x in labelled_tokens(batches["labels"]))
    table = rotation_table(
        ids.shape[2], config.hidden_size // config.num_attention_heads, ids.device
    )

    def loss_of_step(step: int) -> torch.Tensor:
        at = step % len(ids)
        return call(ids[at], indices[at], labels[at], *table)

    return train(model, loss_of_step, ids[0].numel(), steps, warmup, mixed=True)


def run_ours(
    command: str, folder: Path, file: Path, steps: int, warmup: int, *more: str
) -> dict[str, object]:
    gc.collect()
    torch.cuda.empty_cache()
    call = [
        command,
        "bench",
        str(folder),
        "--batches",
        str(file),
        "--steps",
        str(steps),
        "--warmup",
        str(warmup),
    ]
    peak = PEAK.get(torch.cuda.get_device_name())
    if peak:
        call += ["--peak", str(peak)]
    done = subprocess.run(
        [*call, "--learning-rate", str(RATE), "--rate-warmup", str(RATE_WARMUP), "--json", *more],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def shape_line(name: str, ours: dict, theirs: dict) -> str:
    speed = [run["tokens_per_second"] for run in (theirs, ours)]
    memory = [run["peak_memory"] / 1e9 for run in (theirs, ours)]
    used = f"{100 * ours['utilisation']:.0f} %" if "utilisation" in ours else ""
    return (
        f"{name:<8} {speed[0]:>12,.0f} {speed[1]:>12,.0f} {speed[1] / speed[0]:>7.2f}"
        f" {memory[0]:>8.1f} {memory[1]:>8.1f} {memory[1] / memory[0]:>7.2f}"
        f" {ours['tflops']:>8.0f} {used:>6}  {ours['attention']}"
    )


def distance(a: list[float], b: list[float]) -> tuple[float, float]:
    """Largest and median absolute difference."""
    apart = sorted(abs(x - y) for x, y in zip(a, b, strict=True))
    return apart[-1], apart[len(apart) // 2]


def plot(results: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), sharey=True)
    for axis, name in zip(axes, ["curve", "64x512"], strict=True):
        for who, losses in results["losses"][name].items():
            axis.plot(losses[:CURVE_STEPS], label=who, linewidth=1)
        axis.set_xlabel("step")
        axis.legend()
    axes[0].set_title("without dropout, 16x512")
    axes[1].set_title("with dropout, 64x512")
    axes[0].set_ylabel("loss")
    figure.tight_layout()
    figure.savefig(path)


def measure(command: str, work: Path, *, modes: list[str]) -> dict:
    results: dict = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "losses": {},
        "shapes": {},
    }
    model = work / "model"
    make_model(model)
    for name, rows, length, steps in [
        ("64x512", 64, 512, CURVE_STEPS - 10),
        ("16x2048", 16, 2048, 20),
    ]:
        batches = make_batches(min(steps + 10, CURVE_STEPS), rows, length, seed=1)
        file = work / f"{name}.safetensors"
        save_file(batches, file)
        shape = {"roformer": run_ours(command, model, file, steps, 10)}
        shape["tuned"] = run_tuned(model, batches, steps, 10)
        for mode in modes:
            shape[mode] = run_transformers(model, batches, steps, 10, mode=mode)
        results["losses"][name] = {who: run.pop("losses") for who, run in shape.items()}
        results["shapes"][name] = shape
        print(json.dumps(shape), flush=True)
        file.unlink()
    batches = make_batches(CURVE_STEPS, 16, 512, seed=2)
    file = work / "curve.safetensors"
    save_file(batches, file)
    curve = {
        "roformer": run_ours(command, model, file, CURVE_STEPS - 1, 1, "--dropout", "0")["losses"]
    }
    for mode in ["eager", "tf32"]:
        curve[mode] = run_transformers(model, batches, CURVE_STEPS - 1, 1, mode=mode, dropout=0.0)[
            "losses"
        ]
    results["losses"]["curve"] = curve
    return results


def report(results: dict) -> str:
    heads = ["peer", "roformer", "times", "GB", "GB", "part", "TFLOP/s"]
    widths = [12, 12, 7, 8, 8, 7, 8]
    lines = [
        f"RoFormer-base, masked LM, bfloat16, dropout 0.1; {results['device']}",
        f"PyTorch {results['torch']}, transformers {results['transformers']}; tokens/s, GB:",
        "the peer under torch.compile, then `roformer`; TFLOP/s count the whole model, though",
        "`roformer` computes of the last layer what labels read",
    ]
    for peer, title in PEERS.items():
        if not all(peer in shape for shape in results["shapes"].values()):
            continue  # a file of an older run
        head = "".join(f" {head:>{width}}" for head, width in zip(heads, widths, strict=True))
        lines += ["", title, " " * 8 + head]
        for name, shape in results["shapes"].items():
            lines.append(shape_line(name, shape["roformer"], shape[peer]))
    curve = results["losses"]["curve"]
    with_dropout = results["losses"]["64x512"]
    lines += [
        "",
        f"Loss over {CURVE_STEPS} steps from the same weights and batches, largest and median",
        "difference:",
    ]
    for text, a, b in [
        ("transformers in bfloat16 from itself in TF32, no dropout", curve["eager"], curve["tf32"]),
        ("roformer from transformers in TF32, no dropout", curve["roformer"], curve["tf32"]),
        ("roformer from transformers in bfloat16, no dropout", curve["roformer"], curve["eager"]),
        (
            "roformer from torch.compile, dropout 0.1",
            with_dropout["roformer"],
            with_dropout["compile"],
        ),
    ]:
        lines.append("  {:<58} {:.4f} {:.4f}".format(text, *distance(a, b)))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs="?", help="the program roformer")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="for the files")
    parser.add_argument("--eager", action="store_true", help="transformers without compiling, too")
    parser.add_argument("--again", type=Path, help="only writes and draws this JSON file again")
    arguments = parser.parse_args()
    if arguments.again:
        results = json.loads(arguments.again.read_text())
        arguments.again.with_suffix(".txt").write_text(report(results))
        plot(results, arguments.again.with_suffix(".svg"))
        return
    if not arguments.command:
        parser.error("the program roformer is missing")
    modes = ["compile"] + ["eager"] * arguments.eager
    with tempfile.TemporaryDirectory() as work:
        results = measure(arguments.command, Path(work), modes=modes)
    text = report(results)
    print(text)
    name = results["device"].lower().replace(" ", "-") + "-roformer"
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / f"{name}.txt").write_text(text)
    (arguments.results / f"{name}.json").write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
