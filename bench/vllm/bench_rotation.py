# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotations of the plugin rotary-vllm against vLLM's own, on vLLM's CPU build:

    python bench/vllm/bench_rotation.py [--repeats N]

q and k of 32 and 8 heads of 128, parts of one projection, in the shapes of prefill and of decoding.
Ratios of medians of interleaved calls: vLLM's time over the plugin's.
    table    vLLM's operator _C::rotary_embedding with rotary's kernel against its own
    exact    RotaryEmbedding with exact angles against vLLM's operator
    native   the same against forward_native, vLLM's rotation in PyTorch
    mrope    MRotaryEmbedding with exact angles against vLLM's, which on a CPU is its forward_native
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import vllm._custom_ops  # noqa: F401  (loads the operator)
from rotary_vllm import exact, table
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import MRotaryEmbedding, RotaryEmbedding

HEAD, HEADS, KV_HEADS, ROWS = 128, 32, 8, 8192
SHAPES = {"prefill of 2048": 2048, "prefill of 256": 256, "decode of 16": 16, "decode of 1": 1}
#: Not bfloat16: for it vLLM's build for AArch64 needs instructions that not every CPU has.
DTYPES = {"float32": torch.float32, "float16": torch.float16}


def modules(dtype):
    common = (HEAD, HEAD, ROWS, 500000.0, True, dtype)
    sections = {"mrope_section": [16, 24, 24], "positions_factor": 1}
    with set_current_vllm_config(VllmConfig()):
        return RotaryEmbedding(*common), MRotaryEmbedding(*common, **sections)


def with_our_kernel():
    """An operator like vLLM's with the kernel that replaces it, so that both can be called."""
    library = torch.library.Library("rotary_bench", "DEF")
    library.define(
        "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, int head_size, "
        "Tensor cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()"
    )
    library.impl("rotary_embedding", table.rotary_embedding, "CPU")
    return library


def median_times(calls, repeats):
    """Seconds of each call, interleaved."""
    times = {name: [] for name in calls}
    for step in range(repeats + 3):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            if step >= 3:
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(all_times) for name, all_times in times.items()}


def measure(own, ours, tokens, dtype, repeats):
    qkv = torch.randn(tokens, (HEADS + 2 * KV_HEADS) * HEAD).to(dtype)
    q, k, _ = qkv.split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], -1)
    at = torch.arange(tokens) + 4000
    on_axes = at.expand(3, -1).contiguous()
    table_arguments = (at, q, k, HEAD, own[0].cos_sin_cache, True)
    calls = {
        "vLLM, kernel": lambda: torch.ops._C.rotary_embedding(*table_arguments),
        "vLLM, native": lambda: own[0].forward_native(at, q, k),
        "vLLM, mrope": lambda: own[1](on_axes, q, k),
        "table": lambda: torch.ops.rotary_bench.rotary_embedding(*table_arguments),
        "exact": lambda: ours[0](at, q, k),
        "exact, mrope": lambda: ours[1](on_axes, q, k),
    }
    return median_times(calls, repeats)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    originals = {name: modules(dtype) for name, dtype in DTYPES.items()}
    exact.replace_classes()
    exacts = {name: modules(dtype) for name, dtype in DTYPES.items()}
    library = with_our_kernel()
    print(f"{torch.get_num_threads()} threads; us of the plugin, and vLLM's time over it")
    print(f"{'':26}{'table':>16}{'exact':>16}{'native':>8}{'mrope':>16}")
    with torch.inference_mode():
        for name, dtype in DTYPES.items():
            for label, tokens in SHAPES.items():
                t = measure(originals[name], exacts[name], tokens, dtype, repeats)
                columns = [
                    f"{t['table'] * 1e6:8.1f} {t['vLLM, kernel'] / t['table']:6.2f}x",
                    f"{t['exact'] * 1e6:8.1f} {t['vLLM, kernel'] / t['exact']:6.2f}x",
                    f"{t['vLLM, native'] / t['exact']:7.2f}x",
                    f"{t['exact, mrope'] * 1e6:8.1f} {t['vLLM, mrope'] / t['exact, mrope']:6.2f}x",
                ]
                print(f"{label + ', ' + name:26}" + "".join(columns))
    del library


if __name__ == "__main__":
    main()
