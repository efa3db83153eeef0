# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch blocks of the README run, and do what the README says."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def blocks() -> list[str]:
    page = (ROOT / "README.md").read_text()
    return [text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "rotary.torch" in text]


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_a_model_is_patched(capsys: pytest.CaptureFixture[str]) -> None:
    run(blocks()[0])
    printed = capsys.readouterr().out
    assert "1 rotary buffers checked, 0 wrong" in printed
    assert "apply_rotary_pos_emb" in printed


def test_attention_from_parts() -> None:
    names = run(blocks()[1])
    x = torch.randn(1, 5, 512)
    assert names["y"].shape == (2, 100, 512)
    assert names["softmax"].backend == "flash"
    assert names["alibi"](x).shape == names["linear"](x).shape == x.shape
    assert len(blocks()) == 2
