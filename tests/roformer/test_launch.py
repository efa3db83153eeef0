# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""bin/roformer: what it sets up before it becomes the program; and commands that are forked."""

import os
import platform
import shutil
import stat
import subprocess
from pathlib import Path

import fork_server
import pytest
from roformer_command import golden, run

COMMAND = Path(os.environ["ROFORMER_COMMAND"])
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def launch(folder, *arguments, **environment):
    """What the program is started with: a copy of the command starts a script in its place."""
    command = folder / "bin" / "roformer"
    program = folder / "libexec" / "rotary" / "roformer"
    for path in (command, program):
        path.parent.mkdir(parents=True)
    shutil.copy(COMMAND, command)
    lines = [f'echo "{name}=${{{name}-}}"' for name in VARIABLES]
    program.write_text("\n".join(["#!/bin/sh", *lines, 'printf "%s\\n" "$@"', "exit 7"]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean | environment,
    )
    assert done.returncode == 7
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bounds_spinning_and_passes_arguments_on(tmp_path):
    assert launch(tmp_path, "bench", "a b", "") == [
        "OMP_WAIT_POLICY=",
        "GOMP_SPINCOUNT=1000" if platform.machine() == "x86_64" else "GOMP_SPINCOUNT=10000",
        "KMP_BLOCKTIME=1",
        "bench",
        "a b",
        "",
    ]


@pytest.mark.parametrize("name", VARIABLES)
def test_keeps_the_choice_of_the_user(tmp_path, name):
    wanted = [f"{other}={'5' if other == name else ''}" for other in VARIABLES]
    assert launch(tmp_path, **{name: "5"})[:3] == wanted


def test_starts_by_a_link(tmp_path):
    (tmp_path / "link").symlink_to(COMMAND)
    done = subprocess.run([tmp_path / "link", "--version"], capture_output=True, check=True)
    assert done.stdout.decode() == run("--version")


def test_names_a_missing_program(tmp_path):
    shutil.copy(COMMAND, tmp_path / "roformer")
    done = subprocess.run(
        [tmp_path / "roformer", "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("roformer: cannot start ")
    assert done.stderr.endswith("libexec/rotary/roformer: No such file or directory\n")


def test_forked_commands_do_what_started_ones_do(tmp_path):
    """fork_server.py, which the other tests use, for successes and errors; and where they write."""
    checkpoint, _ = golden("mlm-small")
    for arguments in [
        ["--version"],
        ["train"],
        ["fill-mask", "nowhere", "今天"],
        ["convert", checkpoint, "copy"],
    ]:
        seen = []
        for way in ("started", "forked"):
            folder = tmp_path / way
            folder.mkdir(exist_ok=True)
            if way == "forked":
                done = fork_server.run(*arguments, cwd=folder)
            else:
                done = subprocess.run(
                    [COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=folder
                )
            files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            seen.append((done.returncode, done.stdout, done.stderr, files))
        assert seen[0] == seen[1], arguments
    assert "model.safetensors" in seen[0][3]
