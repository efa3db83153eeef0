# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A layer of Qwen3 before and after rotary.torch.patch, on one thread of a CPU.

    python bench/torch/bench_patch_norms.py [--tokens 1024] [--rounds 15]

Forward and backward, milliseconds of CPU time: of norms and rotation alone, and of the whole
attention layer (16 and 8 heads of 128, 1024 wide, as in Qwen3-0.6B).

    transformers  the model's own norms and rotation
    own           patch(norms="own"): the model's norms, rotary's rotation
    fused         patch(): norms and rotation in one pass

Candidates alternate; figures are medians and, in brackets, the multiple of the time of fused.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
import transformers
from torch import Tensor, nn
from transformers.models.qwen3 import modeling_qwen3

import rotary.torch

Call = Callable[[], object]
WAYS = ("transformers", "own", "fused")


def attention(hidden_size: int, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """A model of one layer, which patch() takes, and its attention."""
    config = transformers.Qwen3Config(
        vocab_size=64, hidden_size=hidden_size, num_hidden_layers=1, num_attention_heads=16,
        num_key_value_heads=8, head_dim=128, intermediate_size=64, attention_dropout=0.0,
    )  # fmt: skip
    model = transformers.Qwen3Model(config).to(dtype)
    return model, model.layers[0].self_attn


def train(result: Tensor, leaves: Sequence[Tensor], grad: Tensor) -> None:
    torch.autograd.grad(result, leaves, grad)


def layer_calls(tokens: int, dtype: torch.dtype) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for way in WAYS:
        model, module = attention(1024, dtype)
        if way != "transformers":
            rotary.torch.patch(model, norms=way)
        x = torch.randn(1, tokens, 1024, dtype=dtype, requires_grad=True)
        table = model.rotary_emb(x, torch.arange(tokens)[None])
        leaves = [x, *module.parameters()]
        grad = torch.randn(1, tokens, 1024, dtype=dtype)

        def run(module=module, x=x, table=table, leaves=leaves, grad=grad) -> None:
            y = module(x, position_embeddings=table, attention_mask=None)[0]
            train(y, leaves, grad)

        calls[way] = run
    return calls


def part_calls(tokens: int, dtype: torch.dtype) -> dict[str, Call]:
    """From the projections to rotated q and k."""
    model, module = attention(64, dtype)
    norms = (module.q_norm, module.k_norm)
    tensors = [
        torch.randn(1, tokens, heads, 128, dtype=dtype, requires_grad=True) for heads in (16, 8)
    ]
    cos, sin = model.rotary_emb(tensors[0], torch.arange(tokens)[None])
    leaves = [*tensors, *(norm.weight for norm in norms)]
    grads = [torch.randn_like(x.transpose(1, 2)) for x in tensors]
    rope = rotary.torch.rope_text({"head_dim": 128, "pairing": "half", "theta": 1e6})

    def normed() -> list[Tensor]:
        return [norm(x).transpose(1, 2) for norm, x in zip(norms, tensors)]

    def fused() -> Sequence[Tensor]:
        q, k = (x.transpose(1, 2) for x in tensors)
        weights = (norm.weight for norm in norms)
        return rotary.torch.qk_norm_rope(
            q, k, *weights, rope=rope, cos=cos, sin=sin, rounding="every_step", token_dim=-2
        )

    forward: dict[str, Callable[[], Sequence[Tensor]]] = {
        "transformers": lambda: modeling_qwen3.apply_rotary_pos_emb(*normed(), cos, sin),
        "own": lambda: rotary.torch.rotate_by_table(
            *normed(), cos=cos, sin=sin, rope=rope, token_dim=-2
        ),
        "fused": fused,
    }
    return {
        way: lambda call=call: torch.autograd.grad(call(), leaves, grads)
        for way, call in forward.items()
    }


def medians(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {way: [] for way in calls}
    for i in range(rounds + 1):
        for way, call in calls.items():
            begin = time.process_time()
            call()
            if i > 0:  # the first warms up
                times[way].append(1e3 * (time.process_time() - begin))
    return {way: statistics.median(each) for way, each in times.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = [("norm and rotation", part_calls, torch.float32),
             ("norm and rotation", part_calls, torch.bfloat16),
             ("attention layer", layer_calls, torch.float32)]  # fmt: skip
    for name, make, dtype in cases:
        found = medians(make(options.tokens, dtype), options.rounds)
        parts = [f"{way} {ms:.1f} ({ms / found['fused']:.2f})" for way, ms in found.items()]
        print(f"{name}, {str(dtype).removeprefix('torch.')}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
