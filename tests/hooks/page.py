# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the Python blocks of docs/ecosystem.md that need other projects, which docs_test cannot."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "docs"))

import pages  # noqa: E402
import run_python  # noqa: E402


def run_section(title):
    """Those of the section of this title, in order, in the current folder. Returns how many."""
    content = (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8")
    lines = content.splitlines()
    first = lines.index(f"## {title}") + 1
    end = next((n for n in range(first, len(lines)) if lines[n].startswith("## ")), len(lines))
    blocks = [
        block
        for block in pages.blocks_of("docs/ecosystem.md", content)
        if block.language == "python" and first < block.line <= end
    ]
    names = {"__name__": "__main__"}
    for block in blocks:
        run_python.run_block(block.name, block.text, names)
    return len(blocks)
