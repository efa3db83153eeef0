"""Context parallelism: a sequence sharded across ranks, here two processes with Gloo."""

import subprocess
import sys
from pathlib import Path

import context_parallel_worker
import pytest
import torch

import rotary.torch  # noqa: F401

OPS = torch.ops.rotary


def test_two_ranks_match_one(tmp_path: Path) -> None:
    """Forward and backward, contiguous and zigzag, causal and not: see the worker. Rank 0 is this
    process, which has loaded PyTorch."""
    store = str(tmp_path / "store")
    other = subprocess.Popen(
        [sys.executable, context_parallel_worker.__file__, "1", "2", store],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    threads = torch.get_num_threads()
    try:
        context_parallel_worker.main(0, 2, store)
    finally:
        torch.set_num_threads(threads)
        output = other.communicate(timeout=240)[0]
    assert other.returncode == 0 and output.strip().endswith("equal"), output


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_zigzag_balances_causal_attention(ranks: int) -> None:
    tokens = 8 * ranks
    like = torch.empty(0)
    shards_of_all = []
    for shard in ("zigzag", "contiguous"):
        work = []
        for rank in range(ranks):
            at = OPS.shard_positions(like, tokens, rank, ranks, shard)
            assert torch.equal(at, OPS.shard_tokens(torch.arange(tokens), 0, rank, ranks, shard))
            work.append(int((at + 1).sum()))  # keys that its queries see
            shards_of_all.append(at)
        assert sum(work) == tokens * (tokens + 1) // 2
        assert len(set(work)) == (1 if shard == "zigzag" else ranks)
    for shards in (shards_of_all[:ranks], shards_of_all[ranks:]):
        assert torch.equal(torch.cat(shards).sort().values, torch.arange(tokens))


ERRORS = [
    (
        ("like", 6, 0, 2, "zigzag"),
        r"\[shard_positions\] tokens must be a multiple of 2 x ranks, 4, got 6",
    ),
    (("like", 5, 0, 2, "contiguous"), r"tokens must be a multiple of ranks, 2, got 5"),
    (("like", 8, 2, 2, "zigzag"), r"rank must be from 0 to ranks - 1, got rank 2 of 2"),
    (("like", 8, 0, 2, "ring"), r"shard must be zigzag or contiguous, got ring"),
]


@pytest.mark.parametrize("arguments,message", ERRORS)
def test_rejects_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OPS.shard_positions(torch.empty(0), *arguments[1:])
