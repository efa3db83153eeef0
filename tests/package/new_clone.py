# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The commands of a new user in a fresh checkout: make run, make install, make uninstall and make
deb. `make test` must reuse what these have compiled.

    python tests/package/new_clone.py SOURCE WORK
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import time

MODEL = "examples/models/llama-3.1-8b.json"


def copy_sources(source: pathlib.Path, target: pathlib.Path) -> None:
    """What git would clone, with changes that are not committed yet."""
    listed = subprocess.run(
        ["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


class Clone:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.build = folder / "build"

    def run(self, *command: object) -> str:
        """Returns what it prints; exits if it fails."""
        begun = time.monotonic()
        done = subprocess.run(
            [str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        print(f"{time.monotonic() - begun:6.1f} s  {' '.join(map(str, command))[-90:]}")
        return done.stdout

    def objects(self) -> dict[pathlib.Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.build.rglob("*.[og]*")
                if path.suffix in (".o", ".gch")}  # fmt: skip


def check_run(clone: Clone) -> None:
    text = clone.run("make", "run")
    assert f"$ build/bin/rotary inspect {MODEL}" in text, text
    assert "Wavelength of each pair" in text and "Next: build/bin/rotary --help" in text, text
    compiled = clone.objects()
    used = clone.run("ninja", "-C", clone.build, "-t", "inputs", "bin/rotary").splitlines()
    needed = {clone.build / name for name in used}
    unneeded = [path for path in compiled if path.suffix == ".o" and path not in needed]
    # Except the empty source that carries the precompiled headers.
    assert all("headers" in path.name for path in unneeded), unneeded

    again = clone.run("make", "run")
    assert again[again.index("$ ") :] == text[text.index("$ ") :]
    assert clone.objects() == compiled


def check_install(clone: Clone, work: pathlib.Path) -> None:
    root = work / "destdir"
    where = ("PREFIX=/opt/rotary", f"DESTDIR={root}", "CUDA=OFF")
    clone.run("make", "install", *where)
    assert "llama3" in clone.run(root / "opt/rotary/bin/rotary", "inspect", MODEL)
    assert (root / "opt/rotary/include/rotary/rotary_c.h").is_file()
    clone.run("make", "uninstall", *where)
    left = [path for path in root.rglob("*") if not path.is_dir()]
    assert not left, left


def check_deb(clone: Clone) -> None:
    clone.run("make", "deb", "CUDA=OFF")
    (package,) = (clone.build / "packages").glob("rotary_*.deb")
    depends = clone.run("dpkg-deb", "-f", package, "Depends")
    assert re.search(r"\blibc6 \(>= 2\.", depends) and "libstdc++6" in depends, depends
    assert "./usr/bin/rotary\n" in clone.run("dpkg-deb", "-c", package)


def check_reuse(clone: Clone) -> None:
    """The compiler settings of `make test` leave no object out of date (without its parts on Python
    and PyTorch, which these commands do not build)."""
    compiled = clone.objects()
    clone.run(
        "bash", "-c",
        '. scripts/stages.sh; mapfile -t settings < <(test_settings); cmake --preset default '
        '"${settings[@]}" -DROTARY_BUILD_PYTHON=OFF -DROTARY_BUILD_TORCH=OFF -DROTARY_CUDA=OFF',
    )  # fmt: skip
    clone.run("ninja", "-C", clone.build, "rotary", "rotary_c", "rotary_cli")
    assert clone.objects() == compiled


def main() -> None:
    source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    clone = Clone(work / "rotary")
    copy_sources(source, clone.folder)
    check_run(clone)
    check_install(clone, work)
    check_deb(clone)
    assert not (clone.folder / ".venv").exists(), "make run, install or deb installed PyTorch"
    check_reuse(clone)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
