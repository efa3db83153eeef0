# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Loads the operators, once: rotation (librotary_torch) and Transformer parts
(librotary_transformer, which needs the first), both built for this PyTorch; or else rotation alone,
for any PyTorch from 2.11 on (librotary_torch_stable)."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Any

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("rotary.torch needs PyTorch: pip install torch", name="torch") from None

_ROTATION = "librotary_torch.so"
_TRANSFORMER = "librotary_transformer.so"
_STABLE = "librotary_torch_stable.so"


def rotation_path() -> Path:
    """$ROTARY_TORCH_LIBRARY, or else beside this file or, in an editable install, beside rotary's
    extension module."""
    named = os.environ.get("ROTARY_TORCH_LIBRARY")
    if named:
        return Path(named)
    beside = Path(__file__).with_name(_ROTATION)
    if not beside.is_file():
        from .. import _core

        compiled = Path(_core.__file__).parent / "torch" / _ROTATION
        if compiled.is_file():
            return compiled
    return beside


def transformer_path() -> Path:
    """$ROTARY_TRANSFORMER_LIBRARY, or else beside the rotation's or, in a build tree, in
    ../transformer."""
    named = os.environ.get("ROTARY_TRANSFORMER_LIBRARY")
    if named:
        return Path(named)
    folder = rotation_path().parent
    in_build_tree = folder.parent / "transformer" / _TRANSFORMER
    return in_build_tree if in_build_tree.is_file() else folder / _TRANSFORMER


def stable_path() -> Path:
    """$ROTARY_TORCH_LIBRARY, if it names that library, or else beside the rotation's or, in a build
    tree, in stable/."""
    path = rotation_path()
    if path.name == _STABLE:
        return path
    in_build_tree = path.parent / "stable" / _STABLE
    return in_build_tree if in_build_tree.is_file() else path.with_name(_STABLE)


def built_for(path: Path) -> str:
    """The PyTorch that a library was built for; empty if nothing beside it says so."""
    stamp = path.with_name("pytorch_version.txt")
    return stamp.read_text().strip() if stamp.is_file() else ""


def is_for_this(path: Path) -> bool:
    """Whether there is a library built for this PyTorch, or one that does not say for which."""
    built = built_for(path)
    same = not built or built.split(".")[:2] == torch.__version__.split(".")[:2]
    return path.is_file() and path.name != _STABLE and same


def load(path: Path, variable: str) -> None:
    """Loads a library that was built for this PyTorch, and raises ImportError otherwise: PyTorch's
    C++ interface changes with its minor versions. `variable` is the environment variable that may
    name the library."""
    this = torch.__version__
    build = (
        'in rotary\'s source folder, pip install ".[torch]" builds them for the PyTorch installed'
    )
    if not path.is_file():
        if os.environ.get(variable):
            raise ImportError(f"rotary.torch: ${variable} names {path}, which does not exist")
        raise ImportError(f"rotary.torch was installed without its operators: {build}, {this}")
    if not is_for_this(path):
        raise ImportError(
            f"rotary.torch: the operators were built for PyTorch {built_for(path)}: {build}, {this}"
        )
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ImportError(
            f"rotary.torch: cannot load the operators ({error}): {build}, {this}"
        ) from error


def load_calls() -> Any:
    """The operators without the boxing of torch.ops, from beside the rotation's library. None where
    they were built without Python or for another version: torch.ops does the same, but slower."""
    path = rotation_path().with_name("_calls" + sysconfig.get_config_var("EXT_SUFFIX"))
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("rotary.torch._calls", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _StableOps:
    """torch.ops.rotary, with an error that says what to do for what is not there."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(torch.ops.rotary, name, None)
        if found is None:
            raise AttributeError(
                f"rotary.torch: {name} is not among the operators for PyTorch's stable ABI, which "
                f'this package has: in rotary\'s source folder, pip install ".[torch]" builds all '
                f"for PyTorch {torch.__version__}"
            )
        return found


#: "native": all operators, built for this PyTorch; "stable": rotation for every PyTorch.
build = "native"
ops: Any
calls: Any
if not is_for_this(rotation_path()) and stable_path().is_file():
    from .stable_abi import Operators

    build = "stable"
    calls = Operators(stable_path(), "rotary")
    ops = _StableOps()
else:
    load(rotation_path(), "ROTARY_TORCH_LIBRARY")
    load(transformer_path(), "ROTARY_TRANSFORMER_LIBRARY")
    calls = load_calls()
    ops = torch.ops.rotary
