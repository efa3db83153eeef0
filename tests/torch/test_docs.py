# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch block of the README runs, and says what the README says it does."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_block_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "README.md").read_text()
    (block,) = (
        text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "rotary.torch" in text
    )
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "1 rotary buffers checked, 0 wrong" in printed
    assert "apply_rotary_pos_emb" in printed
