# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The operators of `rotary export onnx` in onnxruntime, on its CPU provider:

    python bench/onnx/bench_rotation.py [--repeats N] [--threads N]

The standard RotaryEmbedding with exact caches against rotary.Rotate, which has none, beside a copy
(Identity) of q and k. Halves, 32 heads of 128 for q and 8 for k. Medians of interleaved runs."""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnxruntime
from onnx import helper

import rotary

HEAD, LENGTH = 128, 131072
ROPE = rotary.Rope(head_dim=HEAD, theta=500000.0, pairing="half")
#        name: (batch, tokens)
SHAPES = {"prefill": (1, 1024), "decode": (32, 1)}


def models(dtype: str) -> dict[str, object]:
    standard = rotary.onnx.export(ROPE, length=LENGTH, dtype=dtype)
    exact = rotary.onnx.export(ROPE, dtype=dtype, exact=True)
    copy = rotary.onnx.export(ROPE, dtype=dtype, exact=True)
    del copy.graph.node[:]
    for name in "qk":  # Identity would be removed
        copy.graph.node.append(helper.make_node("Concat", [name], [f"{name}_rotated"], axis=0))
    return {"copy": copy, "RotaryEmbedding": standard, "Rotate": exact}


def measure(
    sessions: dict[str, object], feeds: dict[str, object], repeats: int
) -> dict[str, float]:
    """Median seconds of each, interleaved, on bound memory: nothing is allocated or copied."""
    bindings = {}
    for name, session in sessions.items():
        bindings[name] = session.io_binding()
        for key, value in feeds.items():
            bindings[name].bind_ortvalue_input(key, value)
        for key in "qk":
            shape = feeds[key].shape()
            out = onnxruntime.OrtValue.ortvalue_from_numpy(
                np.empty(shape, feeds[key].numpy().dtype)
            )
            bindings[name].bind_ortvalue_output(f"{key}_rotated", out)
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(repeats + 2):
        for name, session in sessions.items():
            begin = time.perf_counter()
            session.run_with_iobinding(bindings[name])
            times[name].append(time.perf_counter() - begin)
    return {name: float(np.median(values[2:])) for name, values in times.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=30)
    arguments.add_argument("--threads", type=int, default=0, help="of a session; 0: its default")
    options = arguments.parse_args()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    # Idle threads of one session would take the cores from the next.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    rotary.onnx.register(settings)
    make = np.random.default_rng(0).standard_normal
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    print(f"onnxruntime {onnxruntime.__version__}, {rotary.cpu_target()}; ms, and over the copy")
    for dtype in ("float32", "float16"):
        sessions = {
            name: onnxruntime.InferenceSession(
                model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
            )
            for name, model in models(dtype).items()
        }
        for shape, (batch, tokens) in SHAPES.items():
            ids = np.arange(tokens, dtype=np.int64)[None] + 100_000 + np.zeros((batch, 1), np.int64)
            feeds = {
                "q": value(make((batch, 32, tokens, HEAD)).astype(dtype)),
                "k": value(make((batch, 8, tokens, HEAD)).astype(dtype)),
                "position_ids": value(ids),
            }
            found = measure(sessions, feeds, options.repeats)
            row = "  ".join(
                f"{n} {1e3 * t:.3f} ({t / found['copy']:.2f})" for n, t in found.items()
            )
            print(f"{dtype:8} {shape:8} {row}")


if __name__ == "__main__":
    main()
