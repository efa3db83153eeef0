# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""`rotary explore` writes a page and has the desktop open it, with a stand-in for the desktop."""

import os
import pathlib
import stat
import sys
import time

import pytest
from command import EXAMPLES, run

MODEL = EXAMPLES / "llama-3.1-8b.json"
OPENER = "open" if sys.platform == "darwin" else "xdg-open"


def write_opener(folder: pathlib.Path, then: str = "") -> pathlib.Path:
    """An opener on a PATH of its own, which writes what it was given to the file that it names."""
    opened = folder / "opened.txt"
    program = folder / "bin" / OPENER
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$#" "$@" >"{opened}.new"\necho noise; echo noise >&2\n'
        f'mv "{opened}.new" "{opened}"\n{then}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return opened


def wait_for(path: pathlib.Path) -> list[str]:
    until = time.monotonic() + 20
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return path.read_text().splitlines()


def path_with(folder: pathlib.Path) -> str:
    return f"{folder / 'bin'}:/usr/bin:/bin"


@pytest.mark.parametrize("display", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_desktop_opens_the_page(tmp_path, monkeypatch, display) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    opened = write_opener(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = run("explore", MODEL, "-o", "a page.html", PATH=path_with(tmp_path), **{display: ":7"})
    assert done.returncode == 0
    assert done.stdout == "a page.html\n" and done.stderr == ""  # nothing of what the opener says
    page = tmp_path / "a page.html"
    assert wait_for(opened) == ["1", str(page)]  # one argument, an absolute path
    assert "llama-3.1-8b.json" in page.read_text()


def test_temporary_page_is_opened(tmp_path) -> None:
    opened = write_opener(tmp_path)
    done = run("explore", MODEL, PATH=path_with(tmp_path), DISPLAY=":7", TMPDIR=str(tmp_path))
    page = pathlib.Path(done.stdout.rstrip("\n"))
    assert page.parent == tmp_path and page.is_file()
    assert wait_for(opened) == ["1", str(page)]


def test_does_not_wait_for_the_browser(tmp_path) -> None:
    """A browser keeps running: neither the command nor a pipe that reads it may wait for it."""
    opened = write_opener(tmp_path, then="sleep 30")
    began = time.monotonic()
    done = run("explore", MODEL, "-o", tmp_path / "page.html", PATH=path_with(tmp_path),
               DISPLAY=":7")  # fmt: skip
    assert done.returncode == 0
    assert time.monotonic() - began < 15
    wait_for(opened)


def test_no_open_opens_nothing(tmp_path) -> None:
    opened = write_opener(tmp_path)
    done = run("explore", MODEL, "-o", tmp_path / "page.html", "--no-open",
               PATH=path_with(tmp_path), DISPLAY=":7")  # fmt: skip
    assert done.returncode == 0
    time.sleep(0.3)
    assert not opened.exists()


if sys.platform != "darwin":  # a Mac always has a desktop

    def test_without_a_desktop_nothing_is_opened(tmp_path) -> None:
        opened = write_opener(tmp_path)
        done = run("explore", MODEL, "-o", tmp_path / "page.html", PATH=path_with(tmp_path),
                   DISPLAY="", WAYLAND_DISPLAY="")  # fmt: skip
        assert done.returncode == 0 and done.stderr == ""
        time.sleep(0.3)
        assert not opened.exists()


def test_missing_opener_is_said_and_the_page_is_there(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    page = tmp_path / "page.html"
    done = run("explore", MODEL, "-o", page, PATH=str(tmp_path / "empty"), DISPLAY=":7")
    assert done.returncode == 0 and page.is_file()
    assert done.stderr == f"rotary: {OPENER} was not found; open the page yourself\n"


def test_page_that_cannot_be_written(tmp_path) -> None:
    done = run("explore", MODEL, "-o", tmp_path / "none" / "page.html", "--no-open")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []
