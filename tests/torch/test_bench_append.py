# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""bench/torch/bench_append.py: a line for each case, and candidates that do the same."""

import bench_append
import pytest
import torch


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    bench_append.main(["--device", "cpu", "--tokens", "3", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("3 tokens, float32 to float32: fused ")
    assert all(word in lines[2] for word in ("float8_e4m3fn", "rotate ", "copy "))


def test_candidates_agree() -> None:
    for cache in (torch.bfloat16, torch.float8_e4m3fn):
        results = []
        for name in ("fused", "rotate"):
            torch.manual_seed(1)
            call = bench_append.candidates(20, torch.bfloat16, cache, "cpu")[name]
            results.append(call())
        assert torch.equal(*results)
