# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""`import rotary.torch` where it cannot work says in one line why, and what to type.

PyTorch is replaced by a module of a few lines: these tests need neither it nor the operators.
"""

import os
import subprocess
import sys

import pytest

BUILD = 'in rotary\'s source folder, pip install ".[torch]" builds them for the PyTorch installed'

FAKE_TORCH = """
class ops:
    @staticmethod
    def load_library(path):
        raise OSError(f"{path}: undefined symbol: at_rotate")

__version__ = "2.13.0+cpu"
"""


@pytest.fixture
def import_error(tmp_path):
    """A function: the last line that `import rotary.torch` prints with the given torch.py."""

    def last_line(torch: str | None, **environment: str) -> str:
        code = "import rotary.torch"
        if torch is None:
            code = "import sys; sys.modules['torch'] = None; " + code
        else:
            (tmp_path / "torch.py").write_text(torch)
            code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); " + code
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ROTARY_T")}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**inherited, **environment},
        )
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()[-1]

    return last_line


@pytest.fixture
def library(tmp_path):
    """A library of operators, with the note for which PyTorch it is."""
    (tmp_path / "pytorch_version.txt").write_text("2.13.1\n")
    path = tmp_path / "librotary_torch.so"
    path.touch()
    return path


def test_without_pytorch(import_error):
    assert import_error(None) == ("ImportError: rotary.torch needs PyTorch: pip install torch")


def test_broken_pytorch_is_not_hidden(import_error):
    assert import_error("import no_such_part") == (
        "ModuleNotFoundError: No module named 'no_such_part'"
    )


def test_without_operators(import_error):
    assert import_error(FAKE_TORCH) == (
        f"ImportError: rotary.torch was installed without its operators: {BUILD}, 2.13.0+cpu"
    )


def test_named_library_is_missing(import_error, library):
    library.unlink()
    assert import_error(FAKE_TORCH, ROTARY_TORCH_LIBRARY=str(library)) == (
        f"ImportError: rotary.torch: $ROTARY_TORCH_LIBRARY names {library}, which does not exist"
    )


def test_operators_of_another_pytorch(import_error, library):
    torch = FAKE_TORCH.replace("2.13.0", "2.14.0")
    assert import_error(torch, ROTARY_TORCH_LIBRARY=str(library)) == (
        f"ImportError: rotary.torch: the operators were built for PyTorch 2.13.1: {BUILD}, "
        "2.14.0+cpu"
    )


def test_operators_that_do_not_load(import_error, library):
    assert import_error(FAKE_TORCH, ROTARY_TORCH_LIBRARY=str(library)) == (
        f"ImportError: rotary.torch: cannot load the operators ({library}: undefined symbol: "
        f"at_rotate): {BUILD}, 2.13.0+cpu"
    )
