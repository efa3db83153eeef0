# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Loads the operators, once."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Any

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


def load_calls() -> Any:
    """The operators without the way through torch.ops, from beside them. None where they were built
    without Python, or for another one: torch.ops does the same, in more time."""
    path = library_path().with_name("_calls" + sysconfig.get_config_var("EXT_SUFFIX"))
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("rotary.torch._calls", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


load()
ops = torch.ops.rotary
calls = load_calls()
