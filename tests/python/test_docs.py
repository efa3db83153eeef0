# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every Python block of the pages runs, and so do the examples."""

import os
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
from definition import ROOT

PAGES = [ROOT / "README.md", ROOT / "docs" / "python.md"]


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, monkeypatch):
    import matplotlib as mpl

    mpl.use("agg")
    monkeypatch.chdir(ROOT)
    found = blocks(page)
    assert found
    names = {}
    for block in found:
        if re.search(r"^(import|from) .*(cupy|jax|torch)", block, re.M):
            continue  # of libraries that these tests are without; tests/torch runs its own
        names.setdefault("q", np.ones((16, 32, 128), np.float32))
        names.setdefault("k", np.ones((16, 8, 128), np.float32))
        exec(compile(block, f"{page.name}", "exec"), names)


def test_the_five_lines_of_the_readme_do_what_they_say(monkeypatch):
    monkeypatch.chdir(ROOT)
    block = blocks(PAGES[0])[0]
    assert len([line for line in block.splitlines() if line.strip()]) <= 7
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["q"].shape == (16, 32, 128)
    assert not np.array_equal(names["q"], np.ones_like(names["q"]))


def test_the_example_draws_its_pictures(tmp_path):
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


def test_the_example_of_decoding(capsys):
    runpy.run_path(str(ROOT / "examples" / "python" / "decode.py"), run_name="__main__")
    assert "the same as one call over the whole text" in capsys.readouterr().out
