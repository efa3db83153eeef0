# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel as `pip wheel .` does, installs it into a fresh environment that has NumPy and
nothing else, and uses it there.

    python tests/python/check_wheel.py WORK [-DNAME=VALUE ...]

Definitions that are those of the build next door let ccache find its objects again. Nothing is
downloaded: the tools that build are those of this Python, and NumPy is linked from it.
"""

import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]

USE = """
import importlib.util, numpy as np, rotary
assert importlib.util.find_spec("torch") is None
assert importlib.util.find_spec("matplotlib") is None
rope = rotary.Rope(head_dim=4, theta=1e4, pairing="half")
x = np.array([[[1, 0, 0, 0]]], np.float32)
turned = rope.rotate(x, positions=1)[0, 0]
np.testing.assert_allclose(turned, [np.cos(1), 0, np.sin(1), 0], atol=1e-7)
assert "llama3" in repr(rotary.inspect("{model}"))
try:
    rotary.plot.decay(rope)
except ImportError as error:
    assert str(error) == 'rotary.plot needs matplotlib: pip install "rotary[plot]"', error
print(rotary.__version__, rotary.cpu_target(), rotary.__file__)
"""


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def build(work: pathlib.Path, definitions: list[str]) -> pathlib.Path:
    settings = [f"--config-settings=build-dir={work / 'build'}"]
    for definition in definitions:
        name, _, value = definition.removeprefix("-D").partition("=")
        settings.append(f"--config-settings=cmake.define.{name}={value}")
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index",
        "--disable-pip-version-check", "-w", work / "wheels", *settings, ROOT)  # fmt: skip
    (wheel,) = (work / "wheels").glob("rotary-*.whl")
    return wheel


def check_content(wheel: pathlib.Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {path.name for path in (ROOT / "python" / "rotary").glob("*.py")}
    wanted = {f"rotary/{name}" for name in package | {"py.typed", "_core.pyi"}}
    assert wanted <= names, wanted - names
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    assert any(name.startswith("rotary/_core.") for name in modules), modules
    strangers = {name for name in names if not name.startswith("rotary")}
    assert not strangers, strangers


def fresh_python(work: pathlib.Path) -> pathlib.Path:
    """A new environment with the NumPy of this one."""
    venv.create(work / "venv", with_pip=False, clear=True)
    python = work / "venv" / "bin" / "python"
    site = pathlib.Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    numpy = pathlib.Path(np.__file__).parent
    for folder in (numpy, numpy.parent / "numpy.libs"):
        if folder.exists():
            (site / folder.name).symlink_to(folder)
    return python


def main() -> None:
    work = pathlib.Path(sys.argv[1])
    shutil.rmtree(work, ignore_errors=True)
    wheel = build(work, sys.argv[2:])
    check_content(wheel)
    python = fresh_python(work)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
        "--disable-pip-version-check", wheel)  # fmt: skip
    model = ROOT / "examples" / "models" / "llama-3.1-8b.json"
    print(run(python, "-I", "-c", USE.replace("{model}", str(model))).strip())


if __name__ == "__main__":
    main()
