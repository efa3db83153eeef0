# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What a rotation without a backward does to a model in training, and what rotary.torch.check says:

    python tests/hooks/cuda/forward_only.py

The kernel stands in for the one that transformers 5.17 takes from the hub on CUDA: q and k are
copied, and a kernel that autograd does not know of rotates the copies in place. It replaces the
rotation of an unmodified Llama by `kernels`, if transformers finds that package; otherwise by hand,
where `kernels` would put it.
"""

import contextlib
import types

import torch
import transformers
import triton
import triton.language as tl
from torch import nn
from transformers.models.llama import modeling_llama
from transformers.utils.import_utils import is_kernels_available

import rotary.torch
from rotary.torch.functional import rotate_all_by_table

SIZES = {
    "vocab_size": 1024,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
}
BATCH, TOKENS = 4, 256


@triton.jit
def rotate_halves(
    x, cos, sin, batch_stride, head_stride, token_stride, row_batch_stride, row_stride, half,
    block: tl.constexpr,
):  # fmt: skip
    """x [batch, heads, tokens, 2 half] in place; cos and sin [batch, tokens, 2 half]."""
    token, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = tl.arange(0, block)
    inside = i < half
    first = x + batch * batch_stride + head * head_stride + token * token_stride + i
    row = batch * row_batch_stride + token * row_stride + i
    c = tl.load(cos + row, mask=inside).to(tl.float32)
    s = tl.load(sin + row, mask=inside).to(tl.float32)
    a = tl.load(first, mask=inside).to(tl.float32)
    b = tl.load(first + half, mask=inside).to(tl.float32)
    tl.store(first, a * c - b * s, mask=inside)
    tl.store(first + half, b * c + a * s, mask=inside)


class ForwardOnly(nn.Module):
    """Rotated copies, whose gradient is that of a copy."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        assert unsqueeze_dim == 1
        results = []
        for x in (q, k):
            copy = x.clone()
            batch, heads, tokens, head_dim = copy.shape
            rows = 0 if cos.shape[0] == 1 else cos.stride(0)
            rotate_halves[(tokens, heads, batch)](
                copy, cos, sin, *copy.stride()[:3], rows, cos.stride(1), head_dim // 2,
                block=triton.next_power_of_2(head_dim // 2),
            )  # fmt: skip
            results.append(copy)
        return tuple(results)


class WithGradient(nn.Module):
    """The same by rotary's operator, which has one."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        assert unsqueeze_dim == 1
        rope = f'{{"head_dim": {q.shape[-1]}, "pairing": "half", "theta": 1e4}}'
        return rotate_all_by_table((q, k), cos, sin, rope, -2)


class Repository:
    """Of a layer of this file, for `kernels`."""

    def __init__(self, layer):
        self.layer = layer

    def load(self):
        return self.layer


class Function(nn.Module):
    """The rotation as `kernels` makes a layer of a function."""

    own = staticmethod(modeling_llama.apply_rotary_pos_emb)

    def forward(self, *args, **options):
        return self.own(*args, **options)


@contextlib.contextmanager
def by_kernels(model, layer):
    from kernels import Mode, kernelize, use_kernel_mapping

    repository = Repository(layer)
    with use_kernel_mapping({"rotary_pos_emb": {"cuda": repository}}, inherit_mapping=False):
        kernelize(model, mode=Mode.TRAINING, device="cuda")
    try:
        yield
    finally:
        with use_kernel_mapping({}, inherit_mapping=False):
            kernelize(model, mode=Mode.TRAINING, device="cuda")


@contextlib.contextmanager
def by_hand(model, layer):
    function = Function()
    function.forward = types.MethodType(layer.forward, function)
    modules = [m for m in model.modules() if isinstance(m, modeling_llama.LlamaAttention)]
    for module in modules:
        module._kernel_funcs = {"rotary_pos_emb": function}
    modeling_llama.apply_rotary_pos_emb = function
    try:
        yield
    finally:
        modeling_llama.apply_rotary_pos_emb = Function.own
        for module in modules:
            del module._kernel_funcs


on_kernel = by_kernels if is_kernels_available() else by_hand


def make(dtype):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES)
    return transformers.LlamaForCausalLM(config).to("cuda", dtype).train()


def step(model):
    """The loss and the gradients of the projections to q and k, in double."""
    model.zero_grad()
    ids = torch.randint(0, 1024, (BATCH, TOKENS), generator=torch.Generator().manual_seed(1))
    loss = model(input_ids=ids.cuda(), labels=ids.cuda()).loss
    loss.backward()
    wanted = ("q_proj.weight", "k_proj.weight")
    grads = {n: p.grad.double() for n, p in model.named_parameters() if n.endswith(wanted)}
    return float(loss.detach()), grads


def compare(found, expected):
    """Over all these gradients: the size of the difference over that of the right ones, and the
    cosine of the angle between both."""
    a, b = (torch.cat([g.flatten() for g in grads.values()]) for grads in (found, expected))
    cosine = torch.nn.functional.cosine_similarity(a, b, dim=0)
    return float((a - b).norm() / b.norm()), float(cosine)


def main():
    how = "kernels" if on_kernel is by_kernels else "hand (the package kernels is not here)"
    gpu = torch.cuda.get_device_name()
    print(f"{gpu}, PyTorch {torch.__version__}, transformers {transformers.__version__}")
    print(f"Llama of {SIZES['num_hidden_layers']} layers; its rotation is replaced by {how}")
    failed = 0
    for dtype in (torch.float32, torch.bfloat16):
        model = make(dtype)
        loss, grads = step(model)
        print(f"\n{str(dtype).removeprefix('torch.')}: loss {loss:.4f} by the model's own rotation")
        for layer, wrong in ((ForwardOnly, True), (WithGradient, False)):
            with on_kernel(model, layer):
                kernel_loss, kernel_grads = step(model)
                found = rotary.torch.check(model)
            size, cosine = compare(kernel_grads, grads)
            print(f"{layer.__name__}: loss {kernel_loss:.4f}; gradients of q_proj and k_proj")
            print(f"  differ by {size:.2g} of their size, cosine {cosine:.4f}")
            print(f"  check: {found}")
            if (len(found) > 0) != wrong or found.kernels != 1:
                failed = 1
                print("  FAILED: check should have found " + ("one" if wrong else "none"))
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
