# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The package passes mypy, which finds wrong calls, and ruff."""

import os
import pathlib
import subprocess
import sys
import textwrap

from definition import ROOT

import rotary

PACKAGE = pathlib.Path(rotary.__file__).parent

GOOD = """
    import numpy as np
    from numpy.typing import NDArray
    import rotary

    rope: rotary.Rope = rotary.Rope(head_dim=64, theta=1e4, pairing="half",
                                    scaling=rotary.Yarn(factor=4, original_context=4096))
    q: NDArray[np.float32] = np.ones((4, 2, 64), np.float32)
    rotated: NDArray[np.float32] = rope.rotate(q, positions=rotary.packed([0, 1, 4]))
    a, b = rope.rotate_(q, q.copy(), positions=7)
    values: NDArray[np.float64] = rope.frequencies.values
    scale: float = rope.frequencies.scale
    text: str = repr(rotary.inspect("config.json").rope())
    shifted: NDArray[np.float32] = rope.shift(rotated, delta=-3)
    reveal_type(rope.rerotate(a, to=rope))
"""
BAD = """
    import numpy as np
    import rotary

    rotary.Rope(head_dim=64, theta=1e4)                       # no pairing
    rotary.Rope(head_dim=64, theta=1e4, pairing="neox")       # no such pairing
    rotary.Yarn(scale=4)                                      # no such field
    rotary.Rope(head_dim=64, theta=1e4, pairing="half").shift(np.ones(3))   # no delta
    rotary.Mrope(order="zigzag")
"""


def mypy(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", cwd / "cache",
         *arguments],
        capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )  # fmt: skip


def test_types(tmp_path):
    (tmp_path / "good.py").write_text(textwrap.dedent(GOOD))
    (tmp_path / "bad.py").write_text(textwrap.dedent(BAD))
    files = [p for p in sorted(PACKAGE.glob("*.py*")) if p.suffix in (".py", ".pyi")]
    done = mypy(*files, tmp_path / "good.py", tmp_path / "bad.py", cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [line for line in errors if "bad.py" not in line] == [], done.stdout + done.stderr
    assert len({line.split(":")[1] for line in errors}) == 5, done.stdout
    assert "NDArray" in done.stdout or "ndarray[" in done.stdout  # the result of rerotate


def test_stub_is_complete():
    from rotary import _core

    stub = (PACKAGE / "_core.pyi").read_text()
    for name in dir(_core):
        if not name.startswith("__"):
            assert f"def {name}(" in stub or f"class {name}" in stub or f"{name}:" in stub, name
    assert (PACKAGE / "py.typed").exists()


def test_every_public_name_has_a_docstring():
    for name in rotary.__all__:
        thing = getattr(rotary, name)
        if callable(thing) and getattr(thing, "__module__", "").startswith("rotary"):
            assert thing.__doc__, name


def test_ruff():
    folders = ["python", "python/rotary", "tests/python", "examples/python"]
    files = [str(p) for folder in folders for p in sorted((ROOT / folder).glob("*.py"))]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", *files],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout + done.stderr
