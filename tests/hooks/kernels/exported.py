# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The folder that `rotary export kernels` writes."""

import subprocess
import sys


def written(folder, *options):
    command = [sys.executable, "-m", "rotary", "export", "kernels", "-o", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder
