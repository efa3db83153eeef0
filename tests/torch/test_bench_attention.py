# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""bench/torch/bench_attention.py: the rows that it prints and saves. Times are not checked."""

import json
import pathlib

import bench_attention
import pytest
import torch
from ropes import ladder, text

import rotary.torch as rt

SMALL = ["--device", "cpu", "--heads", "2", "--head-dim", "16", "--seconds", "0.001"]


def test_rows(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "run.json"
    bench_attention.main([*SMALL, "--lengths", "16", "--json", str(saved)])
    printed = capsys.readouterr()
    fields = json.loads(saved.read_text())
    names = [row["candidate"] for row in fields["rows"]]
    assert len(names) == len(set(names)) == 9
    assert all(name in printed.out and name in printed.err for name in names)
    for row in fields["rows"]:
        assert row["tokens"] == 16
        assert row["both_ms"] > 0
        assert row["ns_per_token"] == pytest.approx(1e6 * row["both_ms"] / 16)
    bench_attention.main(["--from", str(saved)])
    assert capsys.readouterr().out == printed.out


def test_spread() -> None:
    run = bench_attention.Run("a machine", "cuda", "2", "bfloat16", 8, 16, 64)
    run.rows = [
        bench_attention.Row("linear, elu", n, 1.0, 2.0, each, 4.0)
        for n, each in [(2048, 40.0), (1024, 50.0), (4096, 44.0)]
    ]
    assert bench_attention.spread(run, "linear, elu") == ("1,024 to 4,096", 1.25)


def test_slow_candidates_drop_out(capsys: pytest.CaptureFixture[str]) -> None:
    """With a time budget of 0, every candidate runs at its first length only."""
    bench_attention.main([*SMALL, "--lengths", "16,32", "--only", "elu", "--seconds", "1e-9"])
    out = capsys.readouterr().out
    assert "linear, elu" in out
    assert " 32 " not in out


def test_plot(tmp_path: pathlib.Path) -> None:
    run = bench_attention.Run("a machine", "cpu", "2", "float32", 1, 4, 64)
    run.rows = [
        bench_attention.Row(name, n, 1.0, 2.0 * n, 3.0 * n, 4.0 * n)
        for name in ("softmax", "linear, elu", "linear, all pairs")
        for n in (256, 512)
    ]
    bench_attention.plot(run, str(tmp_path / "plot.svg"))
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.startswith("<?xml")


def test_all_pairs_matches_linear_attend() -> None:
    q, k, v = (torch.randn(1, 2, 70, 16, dtype=torch.float64) for _ in range(3))
    rope = text(frequencies=ladder(8))
    torch.testing.assert_close(
        bench_attention.all_pairs(q, k, v, rope), rt.linear_attend(q, k, v, rope=rope, causal=True)
    )
