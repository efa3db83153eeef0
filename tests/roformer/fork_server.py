# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the command roformer in a process that is forked from one which has loaded PyTorch
(fork_server.c): 0.01 s instead of 0.4. Tests of signals, limits and environments start the command
itself."""

from __future__ import annotations

import array
import contextlib
import functools
import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

COMMAND = os.environ["ROFORMER_COMMAND"]
# Models so small are quicker on one thread.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
_PROGRAM = Path(COMMAND).resolve().parents[1] / "libexec" / "rotary" / "roformer"
_LIBRARY = os.environ.get("ROFORMER_FORK_SERVER")


class _Server:
    def __init__(self, preload: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [COMMAND],
            env=ENVIRONMENT
            | {
                "LD_PRELOAD": f"{_LIBRARY}:{preload}",
                "FORK_SERVER_PROGRAM": str(_PROGRAM),
                "FORK_SERVER_SOCKET": str(theirs.fileno()),
            },
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._socket.settimeout(240)

    def run(
        self, arguments: Sequence[str], cwd: str, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        given = [COMMAND, *arguments]
        variables = (f"{name}={value}" for name, value in (ENVIRONMENT | environment).items())
        request = "".join(f"{part}\0" for part in [cwd, str(len(given)), *given, *variables])
        with contextlib.ExitStack() as files:
            outputs = [files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
            rights = array.array("i", [file.fileno() for file in outputs])
            message = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            self._socket.sendmsg([os.fsencode(request)], message)
            answer = self._socket.recv(4)
            assert answer, f"the fork server has ended: {self._process.wait()}"
            code = os.waitstatus_to_exitcode(int.from_bytes(answer, "little"))
            for file in outputs:
                file.seek(0)
            return subprocess.CompletedProcess(given, code, *(file.read() for file in outputs))


@functools.cache
def _server(preload: str) -> _Server:
    return _Server(preload)


def run(
    *arguments: object,
    cwd: object = None,
    preload: str = "",
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The finished command, with one thread; `environment` is read by the shared library `preload`
    and after main() has begun."""
    words, variables = list(map(str, arguments)), environment or {}
    if _LIBRARY:
        return _server(preload).run(words, str(cwd or os.getcwd()), variables)
    return subprocess.run(
        [COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=ENVIRONMENT | variables | ({"LD_PRELOAD": preload} if preload else {}),
    )
