# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Models of transformers: rotated by rotary's kernels, and checked against their configs."""

from .checking import Finding, Findings, check
from .patcher import patch, undo
from .report import Patch, Replaced

__all__ = ["Finding", "Findings", "Patch", "Replaced", "check", "patch", "undo"]
