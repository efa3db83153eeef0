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
