"""Tests for CUDA only: graphs and streams. All other tests also run on CUDA, if available."""

import torch
from ropes import ROPES, text

import rotary.torch as rt


def test_cuda_graph() -> None:
    """Positions are read on the device only: a replayed graph uses their current values."""
    rope = text(theta=10000.0)
    module = rt.RotaryEmbedding(rope, learn="log_gain", device="cuda")
    per_head = rt.RotaryEmbedding(rope, learn="per_head", heads=3, device="cuda")
    x = torch.randn(2, 5, 3, 16, device="cuda", requires_grad=True)
    at = torch.randint(0, 99, (2, 5), device="cuda")
    cu = torch.tensor([0, 2, 5], device="cuda")

    def step() -> tuple[torch.Tensor, ...]:
        out = rt.rotate(x, rope=rope, positions=at)
        packed = rt.rotate(x, rope=rope, cu_seqlens=cu)
        learned = module(x, positions=at)
        own = per_head(x, positions=at)
        loss = out.sin().sum() + packed.cos().sum() + learned.sin().sum() + own.cos().sum()
        wanted = [x, module.learned, per_head.learned]
        return out, packed, learned, own, *torch.autograd.grad(loss, wanted)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    at += 17
    cu[1] = 4
    graph.replay()
    for a, b in zip(results, step(), strict=True):
        assert torch.equal(a, b)


def test_cuda_graph_of_fused_operators() -> None:
    """Norm, gradients and appends neither synchronise nor read device memory on the host."""
    rope = text(head_dim=64, rotary_dim=64, theta=10000.0)
    q, k, v = torch.randn(3, 7, 4, 64, device="cuda", dtype=torch.bfloat16).unbind()
    q.requires_grad_()
    w = torch.randn(64, device="cuda", requires_grad=True)
    at = torch.randint(0, 99, (7,), device="cuda")
    slots = torch.tensor([3, 0, -1, 9, 17, 18, 5], device="cuda")
    key_cache, value_cache = torch.zeros(2, 6, 4, 4, 64, device="cuda").bfloat16().unbind()
    keys8 = torch.zeros(6, 4, 4, 64, device="cuda", dtype=torch.int8)
    values8, scales = torch.zeros_like(keys8), torch.zeros(2, 6, 4, 4, device="cuda")

    def step() -> tuple[torch.Tensor, ...]:
        out = rt.qk_norm_rope(q, None, w, rope=rope, positions=at)
        gradients = torch.autograd.grad(out.float().sin().sum(), [q, w])
        where = {"rope": rope, "positions": at}
        with torch.no_grad():
            plain = rt.rope_append_kv(q, k, v, key_cache, value_cache, slots, **where)
            quantised = rt.rope_append_kv(
                q, k, v, keys8, values8, slots, key_scales=scales[0], value_scales=scales[1],
                norm="rms", q_weight=w, **where,
            )  # fmt: skip
        caches = [x.clone() for x in (key_cache, value_cache, keys8, values8, scales)]
        return out, *gradients, plain, quantised, *caches

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    at += 17
    slots.copy_(torch.tensor([4, 1, -1, 8, 16, 19, 6]))
    for x in (key_cache, value_cache, keys8, values8, scales):
        x.zero_()
    graph.replay()
    replayed = [x.clone() for x in results]
    for x in (key_cache, value_cache, keys8, values8, scales):
        x.zero_()
    for a, b in zip(replayed, step(), strict=True):
        assert torch.equal(a, b)


def test_fused_operators_have_the_bits_of_the_cpu() -> None:
    for head_dim, dtype in [(64, torch.bfloat16), (128, torch.float16), (96, torch.float32)]:
        rope = text(head_dim=head_dim, rotary_dim=head_dim, theta=10000.0)
        q, k = torch.randn(2, 33, 4, head_dim).to(dtype).unbind()
        w = torch.randn(head_dim)
        # With rounding "tensor" CUDA sums in the order of PyTorch's norms there, which is another.
        for norm in ("rms", "rms_one_plus", "layer"):
            how: dict[str, str] = {"rope": rope, "norm": norm, "rounding": "float32"}
            want = rt.qk_norm_rope(q, k, w, w, **how)
            got = rt.qk_norm_rope(q.cuda(), k.cuda(), w.cuda(), w.cuda(), **how)
            for a, b in zip(got, want):
                assert torch.equal(a.cpu(), b)
        x, y, scale = q.cuda(), k.cuda(), w.to(dtype).cuda()
        normed = [torch.nn.functional.rms_norm(z, [head_dim], scale, 1e-6) for z in (x, y)]
        for a, b in zip(
            rt.qk_norm_rope(x, y, scale, scale, rope=rope), rt.rotate(*normed, rope=rope)
        ):
            assert torch.equal(a, b)


def test_streams() -> None:
    x = torch.randn(64, 512, 8, 16, device="cuda")
    expected = rt.rotate(x, rope=ROPES["half"])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = x * 3 / 3
        out = rt.rotate(y, rope=ROPES["half"])
    stream.synchronize()
    torch.testing.assert_close(out, expected)
