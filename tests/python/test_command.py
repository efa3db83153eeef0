# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""`python -m rotary` is the command; tests/python/check_wheel.py tests the installed one."""

import os
import shutil
import subprocess
import sys

import pytest
from definition import ROOT

COMMAND = os.environ["ROTARY_COMMAND"]
MODEL = str(ROOT / "examples" / "models" / "llama-3.1-8b.json")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("inspect", MODEL), ("inspect", "no/such.json"), ("rotate",), ("spin",), ()],
    ids=lambda arguments: " ".join(arguments[:1]) or "none",
)
def test_module_is_the_command(arguments):
    assert run(sys.executable, "-m", "rotary", *arguments) == run(COMMAND, *arguments)


def test_package_without_the_command(tmp_path):
    shutil.copy(ROOT / "python" / "rotary" / "__main__.py", tmp_path)
    (tmp_path / "__init__.py").touch()
    package = tmp_path.rename(tmp_path.with_name("rotary"))
    code = f"import sys, runpy; sys.path.insert(0, {str(package.parent)!r}); "
    code += "runpy.run_module('rotary', run_name='__main__')"
    assert run(sys.executable, "-I", "-c", code) == (
        1,
        "",
        "rotary: this package was built without the command (ROTARY_BUILD_TOOLS)\n",
    )


def test_script_without_the_package():
    script = str(ROOT / "python" / "command.py")
    code, output, error = run(sys.executable, "-I", "-S", script)
    assert (code, output) == (1, "")
    assert error.endswith("does not find the package rotary\n")
