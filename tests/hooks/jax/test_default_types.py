# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs default_types.py without jax_enable_x64, which all of a process has or has not."""

import os
import subprocess
import sys

from page import ROOT


def test_without_x64():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         ROOT / "tests" / "hooks" / "jax" / "default_types.py"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "JAX_ENABLE_X64": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "38 passed" in done.stdout and "skipped" not in done.stdout, done.stdout
