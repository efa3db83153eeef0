# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""On a machine with a GPU: CUDA arrays of PyTorch and CuPy give the same bits as on the CPU, on
their own stream, without copies, and inside a graph.

    PYTHONPATH=build/python python tests/python/check_cuda.py
"""

import sys

import numpy as np
import torch

import rotary

ROPE = rotary.Rope(head_dim=128, theta=5e5, pairing="half")
GPU = torch.device("cuda")


def tensor(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check_pytorch() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        q, k = tensor(2, 33, 8, 128, dtype=dtype), tensor(2, 33, 2, 128, dtype=dtype, seed=1)
        ids = torch.arange(1000, 1033)
        on_gpu = ROPE.rotate(q.to(GPU), k.to(GPU), positions=ids.to(GPU))
        for ours, theirs in zip(on_gpu, ROPE.rotate(q, k, positions=ids)):
            assert ours.device.type == "cuda" and ours.dtype == dtype
            assert torch.equal(ours.cpu(), theirs), dtype
        for call in ("unrotate", "adjoint"):
            theirs = getattr(ROPE, call)(q, positions=7)
            assert torch.equal(getattr(ROPE, call)(q.to(GPU), positions=7).cpu(), theirs)
        assert torch.equal(ROPE.shift(q.to(GPU), delta=-5).cpu(), ROPE.shift(q, delta=-5))
    x = tensor(5, 2, 128).to(GPU)
    address = x.data_ptr()
    assert ROPE.rotate_(x) is x and x.data_ptr() == address
    assert torch.equal(x.cpu(), ROPE.rotate(tensor(5, 2, 128)))
    packed = rotary.packed(torch.tensor([0, 2, 5], dtype=torch.int32, device=GPU))
    assert torch.equal(
        ROPE.rotate(tensor(5, 2, 128).to(GPU), positions=packed).cpu(),
        ROPE.rotate(tensor(5, 2, 128), positions=rotary.packed([0, 2, 5])),
    )
    cos, sin = ROPE.cos_sin(torch.arange(9, device=GPU))
    assert cos.is_cuda and np.array_equal(cos.cpu(), ROPE.cos_sin(range(9))[0])
    assert np.array_equal(sin.cpu(), ROPE.cos_sin(range(9))[1])


def check_streams() -> None:
    """A call is ordered with earlier and later work on its stream."""
    x, expected = tensor(64, 8, 128), ROPE.rotate(2 * tensor(64, 8, 128))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x.to(GPU)
        torch.cuda._sleep(100_000_000)
        y.mul_(2)
        result = ROPE.rotate(y)  # on the current stream: side
    side.synchronize()
    assert torch.equal(result.cpu(), expected)

    y = x.to(GPU)
    torch.cuda._sleep(100_000_000)
    y.mul_(2)  # on the default stream; side waits for it
    ROPE.rotate_(y, stream=side)
    side.synchronize()
    assert torch.equal(y.cpu(), expected)


def check_graph() -> None:
    """A graph is captured once and replayed with the current positions in memory."""
    x, ids = tensor(4, 8, 128).to(GPU), torch.arange(4, device=GPU)
    out = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ROPE.rotate(x, positions=ids, out=out)
    for first in (0, 4096):
        ids.copy_(torch.arange(first, first + 4))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), ROPE.rotate(x.cpu(), positions=first))


def check_float8() -> None:
    x = tensor(4, 8, 128, dtype=torch.bfloat16).to(GPU)
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=GPU)
    ROPE.rotate(x, out=out)
    exact = ROPE.rotate(x.float())
    assert ((out.float() - exact).abs() <= exact.abs() / 15 + 2**-9).all()


def check_errors() -> None:
    x = tensor(4, 8, 128).to(GPU)
    for call, text in (
        (lambda: ROPE.rotate(x, positions=[1, 2, 3, 4]), "must be on the same device"),
        (lambda: ROPE.rotate(x, tensor(4, 8, 128)), "must be on the same device"),
        (lambda: ROPE.rotate(x, positions=torch.arange(3, device=GPU)), "for 4 tokens, got 3"),
    ):
        try:
            call()
        except ValueError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)


def check_cupy() -> None:
    import cupy

    x = tensor(33, 8, 128).numpy()
    ours = ROPE.rotate(cupy.asarray(x), positions=cupy.arange(5, 38))
    assert isinstance(ours, cupy.ndarray)
    assert np.array_equal(cupy.asnumpy(ours), ROPE.rotate(x, positions=5))
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        y = cupy.asarray(x)
        ROPE.rotate_(y, positions=5)
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(y), cupy.asnumpy(ours))


def check_jax() -> None:
    import jax

    x = tensor(4, 8, 128).numpy()
    cpu = jax.devices("cpu")[0]
    ours = ROPE.rotate(jax.device_put(x, cpu))
    assert isinstance(ours, jax.Array)
    assert np.array_equal(np.asarray(ours), ROPE.rotate(x))


def main() -> None:
    assert rotary.has_cuda() and rotary.cuda_device_count() > 0, "no CUDA engine or no GPU"
    failed = 0
    for check in (
        check_pytorch,
        check_streams,
        check_graph,
        check_float8,
        check_errors,
        check_cupy,
        check_jax,
    ):
        try:
            check()
            print(f"{check.__name__}: ok")
        except ModuleNotFoundError as error:
            print(f"{check.__name__}: not run, {error}")
        except Exception as error:
            failed += 1
            print(f"{check.__name__}: FAILED: {type(error).__name__}: {error}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
