# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""bench/torch/bench_rotation.py: the rows and the table that it prints. Times are not checked."""

import functools
import json
import pathlib

import bench_rotation
import pytest
import torch


def test_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    # Inductor would call the C++ compiler for a minute; test_compile.py tests it.
    quick = functools.partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", quick)
    saved = tmp_path / "rows.jsonl"
    small = ["--device", "cpu", "--tokens", "16", "--rounds", "1", "--no-model"]
    bench_rotation.main([*small, "--json", "--save", str(saved)])
    printed = capsys.readouterr().out
    assert saved.read_text() == printed
    rows = [json.loads(line) for line in printed.splitlines()]
    seen = {(row["what"], row["dtype"], row["candidate"]) for row in rows}
    assert len(seen) == len(rows) == 2 * (5 + 4) + 8
    assert ("host", "bfloat16", "torch.ops.rotary.rotate") in seen
    for row in rows:
        assert row["us"] > 0
        if row["candidate"] == "rotary":
            assert row["over"] == 1.0


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        bench_rotation.Row("model", "float32", "rotary", 1e6, 1.0, tokens_per_s=512.0, peak_mib=7.0)
    ]
    bench_rotation.show(rows, "cpu", 16)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split() == ["model", "float32", "rotary", "1,000,000", "1.00", "512", "7"]
