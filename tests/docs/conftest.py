# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Counts the blocks of the pages."""

import collections

from pages import REASONS, all_blocks


def pytest_terminal_summary(terminalreporter):
    try:
        blocks = all_blocks()
    except ValueError:  # test_docs.py says why
        return
    run = collections.Counter(b.language for b in blocks if not b.reason and b.language != "text")
    listed = ", ".join(f"{count} {language}" for language, count in sorted(run.items()))
    terminalreporter.write_line(f"blocks of the pages: {run.total()} run ({listed})")
    for reason, checked in REASONS.items():
        count = sum(block.reason == reason for block in blocks)
        terminalreporter.write_line(f"  {count} marked: {reason} ({checked})")
    drawings = sum(block.language == "text" for block in blocks)
    terminalreporter.write_line(f"  {drawings} of text, with nothing to run")
