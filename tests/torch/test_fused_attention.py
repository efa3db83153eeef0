# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.rotary.fused_attention: the reference on the CPU, the kernel on Hopper."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import rotary.torch as rt

OPS = torch.ops.rotary
HEAD_DIM = 64
HAS_KERNEL = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


@pytest.fixture(params=["cpu", "cuda"] if HAS_KERNEL else ["cpu"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def seed_of(number: int, device: str) -> Tensor:
    return torch.tensor([number], device=device)


def mask_of(seed: int, sizes: tuple[int, int, int, int], dropout: float, device: str) -> Tensor:
    return OPS.fused_attention_mask(seed_of(seed, device), *sizes, dropout)


def formula(q: Tensor, k: Tensor, v: Tensor, kept: Tensor | None, dropout: float) -> Tensor:
    p = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(HEAD_DIM), -1)
    if kept is not None:
        keep = 1 - round(dropout * 2**16) / 2**16
        p = p * kept / keep
    return p @ v


def inputs_of(device: str, batch: int, heads: int, queries: int, keys: int) -> list[Tensor]:
    """q, k and v as views of one tensor where they have as many tokens, and a gradient."""
    options = {"device": device, "dtype": torch.bfloat16 if device == "cuda" else torch.float32}
    if queries == keys:
        qkv = torch.randn(batch, queries, 3, heads, HEAD_DIM, **options)
        q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    else:
        q = torch.randn(batch, heads, queries, HEAD_DIM, **options)
        k, v = torch.randn(2, batch, keys, heads, HEAD_DIM, **options).transpose(2, 3)
    g = torch.randn(batch, heads, queries, HEAD_DIM, **options)
    return [q, k, v, g]


SHAPES = [
    (2, 3, 128, 128),
    (1, 2, 256, 256),
    (2, 2, 333, 333),
    (1, 3, 576, 576),
    (3, 2, 80, 512),
    (1, 2, 200, 65),
    (2, 1, 1, 130),
]


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_and_gradients(
    shape: tuple[int, int, int, int], dropout: float, device: str
) -> None:
    """Results and gradients match the formula in float64 with the sampled dropout mask."""
    *inputs, g = inputs_of(device, *shape)
    seed = seed_of(7, device) if dropout > 0 else None
    kept = mask_of(7, shape, dropout, device).double().cpu() if dropout > 0 else None
    ours = [x.detach().requires_grad_() for x in inputs]
    exact = [x.detach().double().cpu().requires_grad_() for x in inputs]
    y, lse = OPS.fused_attention(*ours, seed, dropout, 1 / math.sqrt(HEAD_DIM))
    expected = formula(*exact, kept, dropout)
    pairs = [(y, expected)]
    expected_lse = torch.logsumexp(exact[0] @ exact[1].transpose(-2, -1) / 8, -1) / math.log(2)
    pairs.append((lse[..., : shape[2]], expected_lse))
    grads = torch.autograd.grad(y, ours, g)
    pairs += zip(grads, torch.autograd.grad(expected, exact, g.double().cpu()), strict=True)
    for a, b in pairs:
        assert (a.detach().cpu().double() - b).norm() < (
            3e-3 if device == "cuda" else 1e-5
        ) * b.norm()


def test_gradients_with_any_strides(device: str) -> None:
    *inputs, g = inputs_of(device, 2, 3, 130, 130)
    ours = [x.detach().requires_grad_() for x in inputs]
    arguments = (seed_of(3, device), 0.25, 0.125)
    y, _ = OPS.fused_attention(*ours, *arguments)
    expected = torch.autograd.grad(y, ours, g, retain_graph=True)
    wide = torch.randn(2, 3, 130, 2 * HEAD_DIM, device=device, dtype=g.dtype)
    wide[..., ::2] = g
    for same in (wide[..., ::2], g.transpose(1, 2).contiguous().transpose(1, 2)):
        for a, b in zip(
            torch.autograd.grad(y, ours, same, retain_graph=True), expected, strict=True
        ):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    apart = [x.detach().contiguous().requires_grad_() for x in inputs]
    torch.testing.assert_close(OPS.fused_attention(*apart, *arguments)[0], y, rtol=0, atol=0)
    summed = torch.autograd.grad(y.sum(), ours, retain_graph=True)  # whose strides are 0
    for a, b in zip(summed, torch.autograd.grad(y, ours, torch.ones_like(g)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.003, 0.9])
def test_dropout_mask_has_keep_prob(dropout: float, device: str) -> None:
    """Over the mask, per row and column of the blocks, and for pairs: within five sigma."""
    shape = (4, 8, 256, 320)
    kept = mask_of(11, shape, dropout, device).double().cpu()
    keep = 1 - round(dropout * 2**16) / 2**16
    sigma = math.sqrt(keep * (1 - keep))
    assert abs(kept.mean() - keep) < 5 * sigma / math.sqrt(kept.numel())
    blocks = kept.unflatten(3, (-1, 64)).unflatten(2, (-1, 64)).transpose(3, 4).reshape(-1, 64, 64)
    groups = [(blocks.mean((0, 2)), 64), (blocks.mean((0, 1)), 64)]
    if dropout > 0.05:  # below, too few are dropped for a statistic per weight of a block
        groups.append((blocks.mean(0), 1))
    for means, count in groups:
        assert (means - keep).abs().max() < 5 * sigma / math.sqrt(len(blocks) * count)
    x = (kept - keep) / sigma
    others = [x.roll(1, 3), x.roll(1, 2), x.roll(8, 3), x.roll(8, 2), x.roll(64, 3), x.roll(1, 1)]
    others += [x.roll((2, 2), (2, 3)), x.roll(64, 2), x.flip(3), x.flip(2), x.roll(1, 0)]
    for y in others:
        assert abs((x * y).mean()) < 5 * math.sqrt(2) / math.sqrt(x.numel())


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_bits_of_a_sample_are_independent(dropout: float, device: str) -> None:
    """Correlations of all pairs of the 256 bits of one sample: the largest, and their variance."""
    kept = mask_of(12, (4, 16, 512, 512), dropout, device).float()
    keep = 1 - round(dropout * 2**16) / 2**16
    parts = kept.unflatten(3, (-1, 8, 4, 2)).unflatten(2, (-1, 8, 4, 2))
    draws = parts.permute(0, 1, 2, 6, 4, 8, 3, 5, 7, 9).reshape(-1, 256)
    x = (draws - keep) / math.sqrt(keep * (1 - keep))
    pairs = torch.triu_indices(256, 256, 1)
    z = (x.T @ x).cpu().double()[pairs[0], pairs[1]] / math.sqrt(len(x))
    assert z.abs().max() < 6
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / len(z))


def test_seed_determines_the_mask(device: str) -> None:
    shape = (1, 2, 192, 128)
    kept = mask_of(5, shape, 0.5, device)
    assert torch.equal(kept, mask_of(5, shape, 0.5, device))
    assert torch.equal(kept.cpu(), mask_of(5, shape, 0.5, "cpu"))
    for other in (4, 6, 5 + 2**32, -5):
        agreeing = (kept == mask_of(other, shape, 0.5, device)).double().mean()
        assert abs(agreeing - 0.5) < 5 * 0.5 / math.sqrt(kept.numel())
    assert not torch.equal(kept[0, 0], kept[0, 1])


def test_deterministic(device: str) -> None:
    """No sum depends on the order of threads."""
    *inputs, g = inputs_of(device, 2, 4, 400, 400)
    ours = [x.detach().requires_grad_() for x in inputs]
    arguments = (seed_of(1, device), 0.1, 0.125)

    def results() -> list[Tensor]:
        y, _ = OPS.fused_attention(*ours, *arguments)
        return [y, *torch.autograd.grad(y, ours, g)]

    first = results()
    for _ in range(3):
        for a, b in zip(results(), first, strict=True):
            assert torch.equal(a, b)


def saved_masks(
    shape: tuple[int, int, int, int], device: str, needs_grad: bool = True
) -> list[Tensor]:
    """Mask words that a call with dropout saves for backward."""
    *inputs, _ = inputs_of(device, *shape)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x), x)[1], lambda x: x):
        ours = [x.detach().requires_grad_(needs_grad) for x in inputs]
        OPS.fused_attention(*ours, seed_of(9, device), 0.1, 0.125)
    return [x for x in kept if x.dtype == torch.int32]


def test_small_masks_are_saved_for_backward(device: str) -> None:
    """In both orders, where they take no more memory than q, k, v and y in 16 bits."""
    masks = saved_masks((1, 2, 200, 430), device)
    assert [x.shape for x in masks] == [(1, 2, 4, 7, 128), (1, 2, 7, 4, 128)]
    assert len(saved_masks((1, 1, 2048, 2048), device)) == 2
    assert saved_masks((1, 1, 2112, 2048), device) == []
    assert saved_masks((1, 1, 64, 64), device, needs_grad=False) == []


@pytest.mark.parametrize("shape", [(1, 2, 128, 128), (2, 3, 130, 70), (1, 2, 64, 300)], ids=str)
def test_saved_masks_give_the_same_gradients(shape: tuple[int, int, int, int], device: str) -> None:
    """Saved masks and masks sampled again in backward give bitwise equal gradients."""
    q, k, v, g = inputs_of(device, *shape)
    seed = seed_of(21, device)
    y, lse, *masks = OPS.fused_attention_with_masks(q, k, v, seed, 0.1, 0.125)
    alone, sums = OPS.fused_attention(q, k, v, seed, 0.1, 0.125)
    assert torch.equal(y, alone)
    assert torch.equal(lse, sums)
    arguments = (g, q, k, v, y, lse, seed, 0.1, 0.125)
    kept = OPS.fused_attention_backward(*arguments, *masks)
    for a, b in zip(kept, OPS.fused_attention_backward(*arguments), strict=True):
        assert torch.equal(a, b)
    other = [torch.zeros_like(x) for x in masks]  # everything is dropped
    assert OPS.fused_attention_backward(*arguments, *other)[2].abs().max() == 0


def unpack_mask(words: Tensor, rows: int, columns: int) -> Tensor:
    """[.., rows, columns] of [.., blocks, blocks, 128] words, in the order of fragments."""
    i, j = torch.arange(64)[:, None], torch.arange(64)[None, :]
    word = i // 16 * 32 + (i % 8 // 2 * 4 + j % 8 // 2) * 2 + i % 2
    bit = i // 8 % 2 * 16 + j % 2 * 8 + 7 - j // 8
    bits = words.cpu().long()[..., word] >> bit & 1
    return bits.transpose(-3, -2).flatten(-2).flatten(-3, -2)[..., :rows, :columns].bool()


def test_both_orders_are_one_mask(device: str) -> None:
    shape = (2, 2, 200, 330)
    q, k, v, _ = inputs_of(device, *shape)
    *_, mask, by_keys = OPS.fused_attention_with_masks(q, k, v, seed_of(4, device), 0.3, 0.125)
    drawn = mask_of(4, shape, 0.3, device).cpu()
    assert torch.equal(unpack_mask(mask, 200, 330), drawn)
    assert torch.equal(unpack_mask(by_keys, 330, 200).transpose(-2, -1), drawn)


def test_activation_checkpointing(device: str) -> None:
    """The seed is drawn again in recomputation, and with it the same masks."""
    *inputs, g = inputs_of(device, 1, 2, 130, 130)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seed = torch.randint(2**62, (1,), device=device)
        return OPS.fused_attention(q, k, v, seed, 0.2, 0.125)[0]

    def gradients(recomputed: bool) -> tuple[Tensor, ...]:
        torch.manual_seed(3)
        ours = [x.detach().requires_grad_() for x in inputs]
        y = checkpoint(attention, *ours, use_reentrant=False) if recomputed else attention(*ours)
        return torch.autograd.grad(y, ours, g)

    for a, b in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(a, b)


def test_large_and_small_scores(device: str) -> None:
    """Weights near 0 and 1, and no infinities in rows of large scores."""
    q, k, v, g = inputs_of(device, 1, 2, 200, 200)
    for shift in (-30.0, 30.0):
        ours = [(8 * q + 1).detach(), (k * 2 + shift / 8).detach(), v.detach()]
        ours = [x.requires_grad_() for x in ours]
        exact = [x.detach().double().cpu().requires_grad_() for x in ours]
        y, _ = OPS.fused_attention(*ours, None, 0.0, 0.125)
        expected = formula(*exact, None, 0.0)
        grads = torch.autograd.grad(y, ours, g)
        pairs = zip(grads, torch.autograd.grad(expected, exact, g.double().cpu()), strict=True)
        for a, b in [(y, expected), *pairs]:
            limit = 2e-2 if device == "cuda" else 1e-4
            assert (a.detach().cpu().double() - b).norm() < limit * b.norm()


def test_rejects_wrong_arguments(device: str) -> None:
    *inputs, g = inputs_of(device, 1, 2, 64, 64)
    with pytest.raises(ValueError, match="dropout needs a seed"):
        OPS.fused_attention(*inputs, None, 0.1, 0.125)
    with pytest.raises(ValueError, match="below 1"):
        OPS.fused_attention(*inputs, seed_of(0, device), 1.0, 0.125)
    with pytest.raises(ValueError, match="must be"):
        OPS.fused_attention(inputs[0], inputs[1][:, :1], inputs[2], None, 0.0, 0.125)
    q = inputs[0].detach().requires_grad_()
    y, _ = OPS.fused_attention(q, *inputs[1:], None, 0.0, 0.125)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.autograd.grad(y, q, g, create_graph=True)


def test_opcheck(device: str) -> None:
    *inputs, _ = inputs_of(device, 1, 2, 70, 70)
    ours = [x.detach().requires_grad_() for x in inputs]
    torch.library.opcheck(
        OPS.fused_attention, (*ours, seed_of(2, device), 0.1, 0.125), rtol=1e-2, atol=1e-2
    )
    with_masks = (*inputs, seed_of(2, device), 0.1, 0.125)
    torch.library.opcheck(OPS.fused_attention_with_masks, with_masks, rtol=1e-2, atol=1e-2)
    y, lse, *masks = OPS.fused_attention_with_masks(*with_masks)
    backward = (y, *inputs, y, lse, seed_of(2, device), 0.1, 0.125, *masks)
    torch.library.opcheck(OPS.fused_attention_backward, backward, rtol=1e-2, atol=1e-2)


def test_attend_selects_it_on_hopper(device: str) -> None:
    q, k, v, g = inputs_of(device, 4, 3, 256, 256)
    own = "rotary" if device == "cuda" else "math"
    assert rt.attention_backend(q, k, v, dropout=0.1) == own
    assert rt.attention_backend(q, k, v, causal=True) != "rotary"
    assert rt.attention_backend(q, k, v, dropout=0.1, scale=-1.0) != "rotary"
    assert rt.attention_backend(q[..., :32], k[..., :32], v, dropout=0.1) != "rotary"
    if device == "cpu":
        return
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        assert rt.attention_backend(q, k, v, dropout=0.1) == "cudnn"
    many = q.repeat(16, 1, 1, 1)
    assert rt.attention_backend(many, many, many) != "rotary"  # not worth it for few keys
    many.requires_grad_()
    assert rt.attention_backend(many, many, many) == "rotary"
    ours = [x.detach().requires_grad_() for x in (q, k, v)]
    mean = sum(rt.attend(*ours, dropout=0.1).double() for _ in range(200)) / 200
    assert rt.last_attention_backend() == "rotary"
    expected = formula(*(x.double() for x in (q, k, v)), None, 0.0)
    assert (mean - expected).norm() < 0.05 * expected.norm()
    torch.manual_seed(5)
    y = rt.attend(*ours, dropout=0.1)
    torch.manual_seed(5)
    assert torch.equal(rt.attend(*ours, dropout=0.1), y)
    assert all(x.isfinite().all() for x in torch.autograd.grad(y, ours, g))
