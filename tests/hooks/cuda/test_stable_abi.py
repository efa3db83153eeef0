# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The tests of ../stable_cases.py on a GPU, and those of streams and graphs (scripts/gpu_hooks.sh).
A direct call and one through the dispatcher read PyTorch's current stream apart from each other."""

import pytest
import torch
from stable_cases import *  # noqa: F403
from stable_cases import DEVICE, ROPE, TEXT, arange, random

import rotary.torch
from rotary.torch import _library


def through_the_dispatcher(x, **positions):
    return torch.ops.rotary.rotate([x], TEXT, **positions)[0]


def directly(x, positions=None, first=0):
    found = _library.calls.direct["rotate"]((x,), TEXT, positions, None, first, -3)
    assert found is not NotImplemented and found is not None
    return found


CALLS = [through_the_dispatcher, directly]


def test_device():
    assert DEVICE == "cuda" and rotary.has_cuda()


@pytest.mark.parametrize("call", CALLS)
def test_stream(call):
    """A call waits for earlier work of the current stream, and later work waits for it."""
    x = random(512, 8, 16, dtype=torch.float32)
    expected = call(2 * x, first=3)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x.clone()
        torch.cuda._sleep(100_000_000)
        y.mul_(2)
        found = call(y, first=3) + 0
        assert not side.query()  # nobody has waited on the host
    side.synchronize()
    assert torch.equal(found, expected)


@pytest.mark.parametrize("call", CALLS)
def test_graph(call):
    """A replay reads the positions that are in memory by then."""
    x, at = random(2, 5, 3, 16, dtype=torch.bfloat16), arange(5)
    call(x, positions=at)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call(x, positions=at)
    at += 70_000
    graph.replay()
    assert torch.equal(found, call(x, positions=at))
    assert torch.equal(found, rotary.torch.rotate(x, rope=ROPE, first=70_000))


def test_training_step_in_a_graph():
    """Forward, backward and the gradient of positions, which has a workspace."""
    x = random(2, 5, 3, 16).requires_grad_()
    at = random(5).requires_grad_()

    def step():
        y = torch.ops.rotary.rotate([x], TEXT, at)[0]
        return torch.autograd.grad(y.sin().sum(), [x, at])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    with torch.no_grad():
        at += 17
    graph.replay()
    for a, b in zip(found, step()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("where", ["positions", "second tensor"])
def test_rejects_tensors_of_two_devices(where):
    x, host = random(5, 3, 16), random(5, 3, 16).cpu()
    with pytest.raises(ValueError, match="same device"):
        if where == "positions":
            rotary.torch.rotate(x, rope=ROPE, positions=torch.arange(5))
        else:
            rotary.torch.rotate(x, host, rope=ROPE)
