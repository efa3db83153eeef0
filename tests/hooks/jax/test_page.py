# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The section of docs/ecosystem.md on JAX, and the benchmark that it names."""

import subprocess
import sys

from page import ROOT, run_section


def test_section(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert run_section("JAX") == 1


def test_benchmark():
    """That it runs; its numbers are for people."""
    script = ROOT / "bench" / "jax" / "bench_rotation.py"
    done = subprocess.run(
        [sys.executable, script, "--repeats", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10 and "prefill, bfloat16, gradient" in done.stdout
