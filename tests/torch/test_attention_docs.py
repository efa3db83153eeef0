# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of docs/attention.md run, one after the other."""

import re
from pathlib import Path

import pytest
import torch.distributed as dist

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attention.md"


def test_the_blocks_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        names: dict[str, object] = {"group": dist.group.WORLD}
        for block in blocks:
            exec(compile(block, "attention.md", "exec"), names)
    finally:
        dist.destroy_process_group()
    assert len(blocks) >= 3
    assert "flash" in capsys.readouterr().out
