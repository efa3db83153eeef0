# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes the folder: build/VARIANT/ with Python files, a library or none, and metadata.json."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

#: Name and version of the kernel; the version grows when the layers' interface changes.
NAME = "rotary"
VERSION = 1
#: The oldest PyTorch of the library for its stable ABI.
STABLE_ABI = (2, 11)
STABLE_LIBRARY = "librotary_torch_stable.so"

_PACKAGE = Path(__file__).resolve().parent.parent
_VARIANT = _PACKAGE / "kernels" / "variant"
_COMMON = ("__init__.py", "layers.py", "tables.py")

_README = """# rotary

Rotary position embedding by cos and sin, forward and backward: a kernel of Hugging Face `kernels`.
Layers: apply_rotary_transformers (pairs of halves), apply_rotary_partial_transformers,
apply_rotary_interleaved_transformers. License: Apache-2.0.
"""


def stable_library() -> Path:
    """$ROTARY_TORCH_STABLE_LIBRARY, or else that of the installed package."""
    named = os.environ.get("ROTARY_TORCH_STABLE_LIBRARY")
    path = Path(named) if named else _PACKAGE / "torch" / STABLE_LIBRARY
    if not path.is_file():
        raise FileNotFoundError(
            f"[kernels] {path} does not exist: this package was built without the library for "
            f"PyTorch's stable ABI"
        )
    return path


def _installed_files() -> dict[str, bytes]:
    """A variant on the operators of the installed package."""
    return {name: (_VARIANT / name).read_bytes() for name in (*_COMMON, "rotation.py")}


def _standalone_files() -> dict[str, bytes]:
    """A variant with the library, which needs PyTorch alone."""
    files = {name: (_VARIANT / name).read_bytes() for name in _COMMON}
    files["rotation.py"] = (_VARIANT / "standalone.py").read_bytes()
    for name in ("stable_abi.py", "stable_derivatives.py"):
        files[name] = (_PACKAGE / "torch" / name).read_bytes()
    files[STABLE_LIBRARY] = stable_library().read_bytes()
    return files


def _variants(standalone: bool) -> dict[str, tuple[str, dict[str, bytes]]]:
    """Name of each variant: its backend and its files."""
    if not standalone:
        files = _installed_files()
        return {f"torch-{backend}": (backend, files) for backend in ("cpu", "cuda")}
    abi = "".join(str(number) for number in STABLE_ABI)
    machine = f"{platform.machine()}-{platform.system().lower()}"
    return {f"torch-stable-abi{abi}-cpu-{machine}": ("cpu", _standalone_files())}


def _metadata(backend: str, files: Mapping[str, bytes]) -> dict[str, object]:
    digests = {
        name: base64.b64encode(hashlib.sha256(content).digest()).decode()
        for name, content in sorted(files.items())
    }
    # The name under which Python imports the variant: another one for other files.
    unique = hashlib.sha256(json.dumps([backend, digests]).encode()).hexdigest()[:12]
    return {
        "id": f"_{NAME}_{backend}_{unique}",
        "name": NAME,
        "version": VERSION,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": backend},
        "digest": {"algorithm": "sha256", "files": digests},
    }


def export(folder: str | os.PathLike[str], *, standalone: bool = False) -> list[str]:
    """Writes the kernel's folder, which must not exist, and gives the names of its variants.

    By default the variants torch-cpu and torch-cuda, which rotate by the installed package and
    need it. `standalone`: one for this machine's CPUs with a library of its own, for PyTorch 2.11
    and newer, which needs neither this package nor a build.
    """
    out = Path(folder)
    if out.exists():
        raise FileExistsError(f"[kernels] {out} exists already")
    variants = _variants(standalone)
    out.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        (made / "README.md").write_text(_README, encoding="utf-8")
        for name, (backend, files) in variants.items():
            target = made / "build" / name
            target.mkdir(parents=True)
            for file, content in files.items():
                (target / file).write_bytes(content)
            text = json.dumps(_metadata(backend, files), indent=2) + "\n"
            (target / "metadata.json").write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.rename(out)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return list(variants)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"rotary: {message}", file=sys.stderr)
        sys.exit(2)


def main(words: list[str]) -> int:
    """`rotary export kernels`."""
    arguments = _Parser(
        prog="rotary export kernels",
        description="Write rotary as a kernel of Hugging Face `kernels`, for LocalLayerRepository",
        allow_abbrev=False,
    )
    add = arguments.add_argument
    add("-o", "--out", metavar="FOLDER", required=True, help="folder to write")
    add("--standalone", action="store_true", help="with a library, for any PyTorch from 2.11 on")
    options = arguments.parse_args(words)
    try:
        names = export(options.out, standalone=options.standalone)
    except OSError as error:
        print(f"rotary: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    print(f"{options.out}: {', '.join(names)}")
    return 0
