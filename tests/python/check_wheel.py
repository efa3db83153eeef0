# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of `make wheel`, installs it into a fresh environment with only its declared
dependencies, and uses it there: the package, the command, and, once the environment has PyTorch,
the operators for its stable ABI.

    python tests/python/check_wheel.py WORK [-DNAME=VALUE ...]

NumPy and PyTorch are those of this Python; only the pinned build tools are downloaded, once
(scripts/wheel.sh).
With -DROTARY_BUILD_TORCH=AUTO it is `pip install ".[torch]"` instead, in an environment that has
this Python's PyTorch: pip builds the package and all operators, and they are used, too.
"""

from __future__ import annotations

import email
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
STABLE = "librotary_torch_stable.so"
MODEL = ROOT / "examples" / "models" / "llama-3.1-8b.json"

USE = """
import importlib.util, numpy as np, rotary
assert importlib.util.find_spec("matplotlib") is None
rope = rotary.Rope(head_dim=4, theta=1e4, pairing="half")
x = np.array([[[1, 0, 0, 0]]], np.float32)
rotated = rope.rotate(x, positions=1)[0, 0]
np.testing.assert_allclose(rotated, [np.cos(1), 0, np.sin(1), 0], atol=1e-7)
assert "llama3" in repr(rotary.inspect("{model}"))
try:
    rotary.plot.decay(rope)
except ImportError as error:
    assert str(error) == 'rotary.plot needs matplotlib: pip install "rotary[plot]"', error
try:
    import rotary.torch
except ImportError as error:
    assert str(error) == "rotary.torch needs PyTorch: pip install torch", error
else:
    raise AssertionError("rotary.torch without PyTorch")
print(rotary.__version__, rotary.cpu_target(), rotary.__file__)
"""

ROTATE_IN_TORCH = """
import pathlib, torch, rotary.torch
from rotary.torch import _library
folder = pathlib.Path(rotary.torch.__file__).parent
assert all((folder / name).is_file() for name in {files}), list(folder.iterdir())
assert _library.build == "{build}"
rope = rotary.Rope(head_dim=4, theta=1e4, pairing="half")
x = torch.tensor([[[1.0, 0, 0, 0]]], requires_grad=True)
rotated = rotary.torch.rotate(x, rope=rope, first=1)
one = torch.tensor(1.0)
expected = torch.stack([one.cos(), 0 * one, one.sin(), 0 * one])
torch.testing.assert_close(rotated[0, 0].detach(), expected)
(rotated * torch.tensor([1.0, 0, 0, 0])).sum().backward()
torch.testing.assert_close(x.grad[0, 0], torch.stack([one.cos(), 0 * one, -one.sin(), 0 * one]))
with torch.inference_mode():
    q, k = rotary.torch.rotate(x, torch.ones(1, 2, 4), rope=rope, first=1)
assert torch.equal(q, rotated) and k.shape == (1, 2, 4)
print(torch.__version__, rotary.torch.__file__)
"""


def start(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ROTARY_T", "PYTHON"))}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True,
        env={**environment, **options.pop("env", {})}, **options,
    )  # fmt: skip


def run(*command: object, **options: object) -> str:
    done = start(*command, **options)
    if done.returncode != 0:
        sys.exit(f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def pip(python: pathlib.Path, *arguments: object) -> str:
    return run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check",
               *arguments)  # fmt: skip


def build(work: pathlib.Path, definitions: list[str]) -> pathlib.Path:
    """The wheel of `make wheel`."""
    environment = {"WHEELHOUSE": str(work / "wheels"), "PYTHON": sys.executable}
    print(run(ROOT / "scripts" / "wheel.sh", *definitions, env=environment).strip())
    (wheel,) = (work / "wheels").glob("rotary-*.whl")
    assert re.search(r"-manylinux_2_\d+_\w+\.whl$", wheel.name), wheel.name
    return wheel


def check_content(wheel: pathlib.Path) -> None:
    content = zipfile.ZipFile(wheel)
    names = set(content.namelist())
    package = {path.name for path in (ROOT / "python" / "rotary").glob("*.py")}
    others = {"py.typed", "_core.pyi", "bin/rotary", "onnx/librotary_onnx.so", f"torch/{STABLE}"}
    wanted = {f"rotary/{name}" for name in package | others}
    assert wanted <= names, wanted - names
    modules = [name for name in names if name.endswith((".so", ".pyd"))]
    assert any(name.startswith("rotary/_core.") for name in modules), modules
    copied = [name for name in names if name.startswith("rotary.libs/")]
    assert not any("torch" in name or "c10" in name for name in copied), copied
    strangers = {name for name in names if not name.startswith("rotary")}
    assert not strangers, strangers
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    needs = email.message_from_bytes(content.read(metadata)).get_all("Requires-Dist")
    assert [need for need in needs if "extra ==" not in need] == ["numpy>=1.23"], needs


def site_of(python: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )


def fresh_python(folder: pathlib.Path) -> pathlib.Path:
    """Creates an environment with the NumPy of this one."""
    venv.create(folder, with_pip=False, clear=True)
    python = folder / "bin" / "python"
    packages = pathlib.Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs", f"numpy-{np.__version__}.dist-info"):
        if (packages / name).exists():
            (site_of(python) / name).symlink_to(packages / name)
    return python


def code_with_closed_pipe(*command: object) -> int:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        return subprocess.run([str(part) for part in command], stdout=output).returncode


def code_after_interrupt(*command: object) -> int:
    """Interrupts a command that takes many seconds, as soon as the program runs."""
    arguments = [str(part) for part in (*command, "bench")]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        while not os.readlink(f"/proc/{process.pid}/exe").endswith("rotary/bin/rotary"):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        return process.wait(60)


def check_command(python: pathlib.Path) -> None:
    """The script and `python -m rotary` behave as the program in the package does."""
    program = site_of(python) / "rotary" / "bin" / "rotary"
    version, text = run(program, "--version"), run(program, "inspect", MODEL)
    assert "llama3" in text
    for command in ([python.with_name("rotary")], [python, "-I", "-m", "rotary"]):
        assert run(*command, "--version") == version
        assert run(*command, "inspect", MODEL) == text
        missing = start(*command, "inspect", "no/such/config.json")
        assert (missing.returncode, missing.stdout) == (1, "")
        assert missing.stderr.count("\n") == 1 and "no/such/config.json" in missing.stderr
        assert start(*command, "no-such-verb").returncode == 2
        closed = code_with_closed_pipe(*command, "inspect", MODEL)
        assert closed == code_with_closed_pipe(program, "inspect", MODEL) != 0
        assert code_after_interrupt(*command) == -signal.SIGINT


def check_target(work: pathlib.Path, wheel: pathlib.Path) -> None:
    """`pip install --target`: the command finds the package beside its folder."""
    run(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps",
        "--no-index", "--target", work / "target", wheel)  # fmt: skip
    script = work / "target" / "bin" / "rotary"
    assert "llama3" in run(sys.executable, "-I", script, "inspect", MODEL)


def add_packages(python: pathlib.Path) -> None:
    """Gives an environment all that this Python has, PyTorch among it."""
    packages = pathlib.Path(np.__file__).parents[1]
    (site_of(python) / "others.pth").write_text(f"{packages}\n")


def rotate_in_torch(python: pathlib.Path, build: str, files: tuple[str, ...]) -> None:
    code = ROTATE_IN_TORCH.replace("{build}", build).replace("{files}", repr(files))
    print(run(python, "-I", "-c", code).strip())


def check_operators(work: pathlib.Path) -> None:
    """`pip install ".[torch]"` in an environment with PyTorch builds the operators for it."""
    python = fresh_python(work / "torch")
    add_packages(python)
    pip(python, "install", f"--config-settings=build-dir={work / 'build'}", f"{ROOT}[torch]")
    rotate_in_torch(python, "native", ("librotary_torch.so", "librotary_transformer.so", STABLE))
    check_command(python)


def main() -> None:
    work = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(work, ignore_errors=True)
    if "-DROTARY_BUILD_TORCH=AUTO" in sys.argv:
        check_operators(work)
        return
    wheel = build(work, sys.argv[2:])
    check_content(wheel)
    python = fresh_python(work / "venv")
    pip(python, "install", "--no-index", wheel)
    pip(python, "check")
    print(run(python, "-I", "-c", USE.replace("{model}", str(MODEL))).strip())
    check_command(python)
    check_target(work, wheel)
    add_packages(python)
    rotate_in_torch(python, "stable", (STABLE,))


if __name__ == "__main__":
    main()
