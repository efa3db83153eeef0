# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python run. (tests/docs runs the blocks of the pages.)"""

import os
import runpy
import subprocess
import sys

from definition import ROOT


def test_pictures_example_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "python" / "pictures.py", tmp_path],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    drawn = sorted(path.name for path in tmp_path.glob("*.png"))
    assert drawn == ["context.png", "scores.png"]
    for name in drawn:
        assert 5_000 < (tmp_path / name).stat().st_size < 100_000
        assert (ROOT / "docs" / "pictures" / name).exists()


def test_decode_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "python" / "decode.py"), run_name="__main__")
    assert "the same as one call over the whole text" in capsys.readouterr().out
