# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel as `pip wheel .` does, installs it into a fresh environment that has NumPy and
nothing else, and uses it there.

    python tests/python/check_wheel.py WORK [-DNAME=VALUE ...]

Definitions that are those of the build next door let ccache find its objects again. Nothing is
downloaded: the tools that build are those of this Python, and NumPy is linked from it. With
-DROTARY_BUILD_TORCH=ON the wheel has the operators, and the environment sees this Python's PyTorch;
that builds for minutes, and `make test` leaves it out.
"""

import os
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

USE_TORCH = """
import pathlib, torch, rotary.torch
assert pathlib.Path(rotary.torch.__file__).with_name("librotary_torch.so").is_file()
rope = rotary.Rope(head_dim=4, theta=1e4, pairing="half")
x = torch.tensor([[[1.0, 0, 0, 0]]], requires_grad=True)
turned = rotary.torch.rotate(x, rope=rope, first=1)
one = torch.tensor(1.0)
expected = torch.stack([one.cos(), 0 * one, one.sin(), 0 * one])
torch.testing.assert_close(turned[0, 0].detach(), expected)
turned.sum().backward()
assert x.grad is not None
print(torch.__version__, rotary.torch.__file__)
"""


def run(*command: object) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ROTARY_TORCH")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment
    )
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


def site_of(python: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )


def fresh_python(work: pathlib.Path) -> pathlib.Path:
    """A new environment with the NumPy of this one."""
    venv.create(work / "venv", with_pip=False, clear=True)
    python = work / "venv" / "bin" / "python"
    numpy = pathlib.Path(np.__file__).parent
    for folder in (numpy, numpy.parent / "numpy.libs"):
        if folder.exists():
            (site_of(python) / folder.name).symlink_to(folder)
    return python


def show_packages(python: pathlib.Path) -> None:
    """Lets the new environment see all packages of this one."""
    packages = pathlib.Path(np.__file__).parent.parent
    (site_of(python) / "others.pth").write_text(f"{packages}\n")


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
    if "-DROTARY_BUILD_TORCH=ON" in sys.argv:
        show_packages(python)
        print(run(python, "-I", "-c", USE_TORCH).strip())


if __name__ == "__main__":
    main()
