# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Commands under file_faults.c: killed, with a failing or full disk, and recorded."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

import disk

SHIM = os.environ["ROTARY_FILE_FAULTS"]


def execute(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess:
    """The finished command, with the shim; tests of other commands may replace it."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment | {"LD_PRELOAD": SHIM},
        timeout=120,
    )


def run(
    command: list[object], root: pathlib.Path, at: int = 0, action: str = "", log: object = None
) -> subprocess.CompletedProcess:
    """The finished command, with a fault at the N-th operation on files below `root`."""
    environment = {"FILE_FAULTS_ROOT": str(root), "OMP_NUM_THREADS": "1"}
    if action:
        environment |= {"FILE_FAULTS_ACTION": action, "FILE_FAULTS_AT": str(at)}
    if log:
        environment["FILE_FAULTS_LOG"] = str(log)
    return execute(list(map(str, command)), environment)


def faults(
    command: list[object], root: pathlib.Path, action: str, log: pathlib.Path
) -> Iterator[tuple[str, subprocess.CompletedProcess]]:
    """The command with a fault at its first operation, at its second, until there is none. Yields
    the kind of the operation that failed first, and the finished command."""
    for at in itertools.count(1):
        log.unlink(missing_ok=True)
        done = run(command, root, at, action, log)
        failed = [one.path for one in disk.read_log(log) if one.kind == "fault"]
        if not failed:
            assert done.returncode == 0, done.stdout + done.stderr
            return
        yield f"{failed[0]} {at}", done


def killed(command: list[object], root: pathlib.Path, at: int) -> bool:
    """Whether the command was killed, at its N-th operation; else it has succeeded."""
    done = run(command, root, at, "kill")
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode != 0


def record(command: list[object], root: pathlib.Path, log: pathlib.Path) -> disk.Recording:
    """What the command, which must succeed, did to the files below `root`."""
    before = disk.snapshot(root)
    done = run(command, root, log=log)
    assert done.returncode == 0, done.stdout + done.stderr
    recording = disk.Recording(before, disk.read_log(log))
    # Nothing escaped the shim: the log accounts for every name and every byte.
    assert recording.final() == disk.tree(root)
    return recording


def is_one_line(done: subprocess.CompletedProcess) -> bool:
    """An error as every command reports it: one line and exit code 1."""
    name = pathlib.Path(done.args[0]).name
    return (
        done.returncode == 1
        and done.stderr.startswith(f"{name}: ")
        and done.stderr.count("\n") == 1
        and "terminate called" not in done.stderr
    )
