#!python
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The command rotary of an environment, installed as the script `rotary`: runs __main__.py of the
package without importing the package, since loading NumPy takes longer than the command."""

import importlib.util
import os
import runpy
import sys

# With `pip install --target`, the package is beside the folder of this script.
beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if os.path.isdir(os.path.join(beside, "rotary")):
    sys.path.insert(0, beside)
spec = importlib.util.find_spec("rotary")
if spec is None or spec.origin is None:
    sys.exit(f"rotary: {sys.executable} does not find the package rotary")
runpy.run_path(os.path.join(os.path.dirname(spec.origin), "__main__.py"), run_name="__main__")
