# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""bench/torch/bench_fused.py: a line for each case, and candidates that do the same."""

import bench_fused
import pytest
import torch


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    bench_fused.main(["--shapes", "C", "--rounds", "1", "--scale", "4096"])
    all_lines = capsys.readouterr().out.splitlines()
    lines = [line for line in all_lines if not line.startswith("  in a loop")]  # on a GPU
    begins = ["forward C half", "backward C half", "training C half", "append C half"]
    assert [line[: len(begin)] for line, begin in zip(lines, begins)] == begins
    assert any(line.startswith("append of 1 tokens") for line in lines)
    assert all("fused " in line and "copy " in line for line in all_lines)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_candidates_agree(pairing: str) -> None:
    case = bench_fused.Case(5, 3, 2, 16, pairing, "cpu")
    got = case.fused(case.q, case.k, case.weights)
    for x, weight, y in zip((case.q, case.k), case.weights, got):
        want = case.unfused(x, weight)
        torch.testing.assert_close(y, want, rtol=3e-2, atol=3e-2)
