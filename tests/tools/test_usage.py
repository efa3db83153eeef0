# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Help, version, completion and every kind of misuse."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from command import COMMAND, EXAMPLES, ROOT, fail, succeed

MODEL = EXAMPLES / "llama-3.1-8b.json"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["inspct", MODEL],
        ["--no-such-option"],
        ["inspect"],
        ["inspect", MODEL, "another"],
        ["inspect", MODEL, "--no-such-option"],
        ["inspect", MODEL, "--context"],
        ["inspect", MODEL, "--context", "many"],
        ["inspect", MODEL, "--context", "0"],
        ["inspect", MODEL, "--context", "-5"],
        ["inspect", MODEL, "--context", "4096x"],
        ["inspect", MODEL, "--context", "99999999999999999999999"],
        ["inspect", "no_such_file", "--context", "x"],
        ["diff", MODEL],
        ["diff", MODEL, MODEL, MODEL],
        ["diff", MODEL, MODEL, "--context", "x"],
        ["rotate", MODEL, "q.npy"],
        ["rotate", MODEL, "q.npy", "out.npy"],
        ["rotate", MODEL, "q.npy", "out.npy", "--positions"],
        ["rotate", MODEL, "q.txt", "out.npy", "--positions", "0:8"],
        ["rotate", MODEL, "q.npy", "out", "--positions", "0:8"],
        ["rotate", MODEL, "q.npy", "out.npy", "--positions", "0:8", "--precision", "best"],
        ["rotate", MODEL, "q.npy", "out.npy", "--positions", "0:8", "--tensor", "q"],
        ["bounds"],
        ["bounds", MODEL, "--dim", "128", "--base", "1e4"],
        ["bounds", "--dim", "128"],
        ["bounds", "--dim", "127", "--base", "1e4"],
        ["bounds", "--dim", "128", "--base", "-1"],
        ["bounds", MODEL, "--context", "99999999"],
        ["decay", MODEL, "--distances", "0"],
        ["precision", MODEL, "--context", "0"],
        ["map", MODEL, "--kind", "colours"],
        ["map", MODEL, "--size", "1"],
        ["map", MODEL, "-o", "map.jpg"],
        ["completion"],
        ["completion", "tcsh"],
        ["models", "llama"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)).replace(str(ROOT), ""),
)
def test_misuse_is_code_2_and_one_line(arguments):
    fail(2, *arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        ":8",
        "8:3",
        "0:8:2",
        "a",
        "0:b",
        "0x10",
        "0,8",
        "1.5:3",
        "+1:3",
        " 0:8",
        "0:8 ",
        "99999999999999999999:",
        "--8",
        "positions.txt",
    ],
)
def test_bad_ranges_are_misuse(text):
    error = fail(2, "rotate", MODEL, "q.npy", "out.npy", "--positions=" + text)
    assert "--positions" in error


@pytest.mark.parametrize(
    "verb",
    [
        [],
        ["inspect"],
        ["rotate"],
        ["diff"],
        ["bounds"],
        ["decay"],
        ["map"],
        ["plan"],
        ["precision"],
        ["explore"],
        ["models"],
        ["completion"],
    ],
    ids=" ".join,
)
def test_help(verb):
    text = succeed(*verb, "--help")
    assert text == succeed(*verb, "-h")
    assert "Usage: rotary" in text
    if verb not in (["models"], ["completion"]):
        assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


def test_version_is_that_of_the_header():
    header = (ROOT / "include/rotary/version.h").read_text()
    version = re.search(r'ROTARY_VERSION_STRING "(.*)"', header)[1]
    assert succeed("--version") == f"rotary {version}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(shell):
    script = succeed("completion", shell)
    assert "inspect" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes():
    script = (
        succeed("completion", "bash")
        + """
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rotary; echo "${COMPREPLY[*]}"; }
complete_words rotary in
complete_words rotary rotate --pos
complete_words rotary rotate a b c --precision ""
"""
    )
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert done.stdout.splitlines() == ["inspect", "--positions", "exact reference"]


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "2>&- >&-", "2>&- <&- >&-"])
@pytest.mark.parametrize(
    "arguments, code", [("inspect no_such_file", 1), ("no_such_verb", 2), ("inspect", 2)]
)
def test_errors_that_nobody_can_read(stream, arguments, code):
    """The exit code alone tells, and nothing is aborted."""
    done = subprocess.run(
        f"'{COMMAND}' {arguments} {stream}", shell=True, capture_output=True, check=False
    )
    assert done.returncode == code and done.stdout == done.stderr == b""


@pytest.mark.parametrize("stream", [">&-", ">/dev/full"])
def test_output_that_cannot_be_written(stream):
    done = subprocess.run(
        f"'{COMMAND}' inspect '{MODEL}' {stream}", shell=True, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"rotary: cannot write the output: ")


def test_messages_do_not_land_in_files(tmp_path):
    """With stderr closed, the first file that is opened must not get its number."""
    np.save(tmp_path / "in.npy", np.zeros((4, 2, 128), np.float32))
    out = tmp_path / "out.npy"
    done = subprocess.run(
        f"'{COMMAND}' rotate '{MODEL}' '{tmp_path / 'in.npy'}' '{out}' --positions 0:4 "
        "<&- >&- 2>&-",
        shell=True,
        check=False,
    )
    assert done.returncode == 0
    assert np.load(out).shape == (4, 2, 128) and out.stat().st_size == 128 + 4 * 4 * 2 * 128
