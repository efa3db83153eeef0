# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Loads the operators, once."""

from __future__ import annotations

import os
from pathlib import Path

import torch


def library_path() -> Path:
    """Beside this file, or where $ROTARY_TORCH_LIBRARY says."""
    named = os.environ.get("ROTARY_TORCH_LIBRARY")
    return Path(named) if named else Path(__file__).with_name("librotary_torch.so")


def load() -> None:
    path = library_path()
    if not path.is_file():
        raise ImportError(
            f"[rotary.torch] the operators are not at {path}: build rotary with ROTARY_BUILD_TORCH "
            f"for this PyTorch ({torch.__version__}), or name them in $ROTARY_TORCH_LIBRARY"
        )
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ImportError(
            f"[rotary.torch] {path} was built for another PyTorch than {torch.__version__}: {error}"
        ) from error


load()
ops = torch.ops.rotary
