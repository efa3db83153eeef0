# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Results are tensors like PyTorch's own: strides, profiler, threads, fork."""

import subprocess
import sys
import threading

import pytest
import torch
from ropes import ROPES

import rotary
import rotary.torch as rt

MIB = 1 << 20
ROPE = ROPES["half"]


def tensor(mib: int, heads: int = 16) -> torch.Tensor:
    """[tokens, heads, 16] of float32."""
    return torch.randn(mib * MIB // (64 * heads), heads, 16)


def test_results_own_their_memory() -> None:
    x = tensor(2)
    results = [rt.rotate(x, rope=ROPE, first=i) for i in range(4)]
    assert len({y.data_ptr() for y in results}) == 4
    view = results[1][5:9]
    kept = view.clone()
    del results[1]
    for i in range(4, 8):
        rt.rotate(x, rope=ROPE, first=i)
    assert torch.equal(view, kept)  # a view keeps its storage


@pytest.mark.parametrize("kind", ["transposed", "slice", "five dimensions", "float64", "bfloat16"])
def test_strides_are_those_of_empty_like(kind: str) -> None:
    x = tensor(4)
    token_dim = -3
    if kind == "transposed":
        x, token_dim = x.transpose(0, 1), -2
    elif kind == "slice":
        x = torch.cat([x, x], -1)[..., 8:24]
    elif kind == "five dimensions":
        x = x.reshape(2, 4, -1, 16, 16)
    else:
        x = x.to(getattr(torch, kind))
    y = rt.rotate(x, rope=ROPE, token_dim=token_dim)
    assert y.stride() == torch.empty_like(x).stride()
    part = x.narrow(token_dim, 0, 10).clone()
    expected = rt.rotate(part, rope=ROPE, token_dim=token_dim)
    assert torch.equal(y.narrow(token_dim, 0, 10), expected)


def test_storage_can_be_resized() -> None:
    y = rt.rotate(tensor(2), rope=ROPE)
    expected = y.clone()
    y.resize_(2 * y.shape[0], 16, 16)
    assert torch.equal(y[: expected.shape[0]], expected)
    y.resize_(expected.shape)
    y.untyped_storage().resize_(0)  # as FSDP does
    y.untyped_storage().resize_(2 * MIB)
    y.copy_(expected)
    y.share_memory_()
    assert y.is_shared()
    assert torch.equal(y, expected)


def test_the_profiler_sees_the_memory_of_results() -> None:
    x = tensor(4)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as seen:
        rt.rotate(x, rope=ROPE)
    moved = {row.key: row.self_cpu_memory_usage for row in seen.key_averages()}
    assert moved["rotary::rotate"] == 4 * MIB


def test_threads() -> None:
    inputs = [tensor(mib) for mib in (1, 2, 3, 4)]
    expected = [rt.rotate(x, rope=ROPE, first=3) for x in inputs]
    wrong = []

    def work(seed: int) -> None:
        alive: list[tuple[int, torch.Tensor]] = []
        for i in range(24):
            which = (seed + i * i) % len(inputs)
            alive.append((which, rt.rotate(inputs[which], rope=ROPE, first=3)))
            if len(alive) > 1 + seed % 3:
                which, result = alive.pop(0)
                if not torch.equal(result, expected[which]):
                    wrong.append(which)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


PROCESS = """
import os, sys, threading, torch, rotary
rotary.__path__ += sys.argv[1:]
import rotary.torch as rt
torch.set_num_threads(1)
rope = '{"head_dim": 16, "pairing": "half", "theta": 1e4}'
x = torch.randn(2048, 16, 16)
kept = rt.rotate(x, rope=rope)   # freed when the process ends
stop = False
def work():
    while not stop:
        rt.rotate(x, rope=rope)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(20):   # while others may hold the lock of the rope cache
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(rt.rotate(x, rope=rope), kept) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for thread in threads:
    thread.join()
print("done")
"""


def test_fork_and_the_end_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, *rotary.__path__[1:]],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
