# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes page.py importable from the tests of every hook."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
