# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The section of docs/ecosystem.md on Hugging Face kernels."""

from page import run_section


def test_section(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_section("Hugging Face kernels") == 1
    assert (tmp_path / "rotary-kernel" / "build" / "torch-cpu" / "metadata.json").is_file()
