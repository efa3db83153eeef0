# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The section of docs/ecosystem.md on vLLM, and the benchmark that it names."""

import subprocess
import sys

from page import ROOT


def test_section():
    """In a process whose rotary classes no other test has replaced."""
    script = "import page; assert page.run_section('vLLM') == 1"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tests" / "hooks", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_benchmark():
    """That it runs; its numbers are for people."""
    script = ROOT / "bench" / "vllm" / "bench_rotation.py"
    done = subprocess.run(
        [sys.executable, script, "--repeats", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "decode of 1, float16" in done.stdout
