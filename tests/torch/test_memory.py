# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Large results on the CPU use the memory of earlier ones."""

import copy
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from ropes import ROPES

import rotary
import rotary.torch as rt

MIB = 1 << 20
ROPE = ROPES["half"]


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    limit = rt.memory_use().limit
    rt.release_memory()
    yield
    rt.set_memory_limit(limit)
    rt.release_memory()


def tensor(mib: int, heads: int = 16) -> torch.Tensor:
    """[tokens, heads, 16] of float32."""
    return torch.randn(mib * MIB // (64 * heads), heads, 16)


def rotated(mib: int) -> torch.Tensor:
    return rt.rotate(tensor(mib), rope=ROPE)


def test_memory_is_used_again() -> None:
    x = tensor(4)
    first = rt.rotate(x, rope=ROPE)
    expected, place = first.clone(), first.data_ptr()
    assert rt.memory_use()[:2] == (4 * MIB, 0)
    del first
    assert rt.memory_use()[:2] == (0, 4 * MIB)
    again = rt.rotate(x, rope=ROPE)
    assert again.data_ptr() == place
    assert torch.equal(again, expected)
    assert rt.memory_use()[:2] == (4 * MIB, 0)


def test_results_are_their_own() -> None:
    x = tensor(2)
    results = [rt.rotate(x, rope=ROPE, first=i) for i in range(4)]
    assert len({y.data_ptr() for y in results}) == 4
    view = results[1][5:9]
    kept = view.clone()
    del results[1]
    for i in range(4, 8):
        rt.rotate(x, rope=ROPE, first=i)
    assert torch.equal(view, kept)  # a view keeps its memory


def test_similar_sizes_share_and_others_do_not() -> None:
    place = rotated(64).data_ptr()
    x = torch.randn(64 * MIB // 1024 - 7, 16, 16)
    result = rt.rotate(x, rope=ROPE)
    assert result.data_ptr() == place
    assert rt.memory_use()[:2] == (64 * MIB, 0)
    smaller = rotated(8)
    assert smaller.data_ptr() != place
    assert rt.memory_use()[:2] == (72 * MIB, 0)


def test_small_results_are_left_to_malloc() -> None:
    x = torch.randn(4, 16, 16)
    y = rt.rotate(x, rope=ROPE)
    assert rt.memory_use()[:2] == (0, 0)
    del y
    assert rt.memory_use()[:2] == (0, 0)


def test_the_limit_holds() -> None:
    rt.set_memory_limit(10 * MIB)
    results = [rotated(4) for _ in range(5)]
    assert rt.memory_use() == (20 * MIB, 0, 10 * MIB)
    while results:
        results.pop()
        assert rt.memory_use().idle <= 10 * MIB
    assert rt.memory_use() == (0, 8 * MIB, 10 * MIB)
    rotated(6)  # what was idle for longest goes first
    assert rt.memory_use()[:2] == (0, 10 * MIB)
    rt.set_memory_limit(7 * MIB)
    assert rt.memory_use()[:2] == (0, 6 * MIB)
    rt.release_memory()
    assert rt.memory_use()[:2] == (0, 0)
    rt.set_memory_limit(0)
    rotated(2)
    assert rt.memory_use() == (0, 0, 0)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        rt.set_memory_limit(-1)


def test_the_way_back_uses_it_too() -> None:
    x = tensor(2).requires_grad_()
    y = rt.rotate(x, rope=ROPE)
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert rt.memory_use()[:2] == (4 * MIB, 0)
    place = g.data_ptr()
    del g
    (g,) = torch.autograd.grad(rt.rotate(x, rope=ROPE).sum(), x)
    assert g.data_ptr() == place
    cos = torch.ones(x.shape[0], 8)
    z = rt.rotate_by_table(x, cos=cos, sin=cos, rope=ROPE)
    assert rt.memory_use().in_use == 6 * MIB
    del y, g, z


@pytest.mark.parametrize("kind", ["transposed", "slice", "five dimensions", "float64", "bfloat16"])
def test_layouts(kind: str) -> None:
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
    assert rt.memory_use().in_use >= 2 * MIB
    assert y.stride() == torch.empty_like(x).stride()
    part = x.narrow(token_dim, 0, 10).clone()  # small: PyTorch's own memory
    expected = rt.rotate(part, rope=ROPE, token_dim=token_dim)
    assert torch.equal(y.narrow(token_dim, 0, 10), expected)


def test_results_are_like_other_tensors() -> None:
    y = rotated(2)
    expected = y.clone()
    assert not y.is_pinned()
    assert torch.equal(copy.deepcopy(y), expected)
    buffer = io.BytesIO()
    torch.save(y, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer), expected)
    y.resize_(2 * y.shape[0], 16, 16)
    assert torch.equal(y[: expected.shape[0]], expected)
    y.resize_(expected.shape)
    y.untyped_storage().resize_(0)  # as FSDP does
    y.untyped_storage().resize_(2 * MIB)
    y.copy_(expected)
    y.share_memory_()
    assert y.is_shared()
    assert torch.equal(y, expected)
    assert rt.memory_use().in_use == 0  # shared memory is the system's
    z = rotated(2)
    kept = z.clone()
    torch._lazy_clone(z).zero_()
    assert torch.equal(z, kept)
    array = z.numpy()
    del z
    rotated(2)
    assert torch.equal(torch.from_numpy(array), kept)


def test_the_profiler_sees_results() -> None:
    x = tensor(4)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as seen:
        rt.rotate(x, rope=ROPE)
    moved = {row.key: row.self_cpu_memory_usage for row in seen.key_averages()}
    assert moved["rotary::rotate"] == 4 * MIB


def test_threads() -> None:
    rt.set_memory_limit(12 * MIB)
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
    use = rt.memory_use()
    assert use.in_use == 10 * MIB
    assert use.idle <= use.limit


PROCESS = """
import os, sys, threading, torch, rotary
rotary.__path__ += sys.argv[1:]
import rotary.torch as rt
try:
    print(rt.memory_use().limit >> 20)
except ValueError as error:
    sys.exit(str(error))
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
for _ in range(20):   # while others hold the pool
    child = os.fork()
    if child == 0:
        same = torch.equal(rt.rotate(x, rope=rope), kept)
        rt.release_memory()
        os._exit(0 if same else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
for thread in threads:
    thread.join()
print("done")
"""


def run_process(limit: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROCESS, *rotary.__path__[1:]],
        env={**os.environ, "ROTARY_TORCH_MEMORY_LIMIT": limit},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_environment_forks_and_the_end_of_the_process() -> None:
    done = run_process("3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3\ndone\n"


def test_an_environment_that_is_no_number() -> None:
    done = run_process("3 GiB")
    assert done.returncode == 1
    assert "$ROTARY_TORCH_MEMORY_LIMIT must be a number of MiB, got 3 GiB" in done.stderr
