# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The command rotary, as `python -m rotary`: replaces this process by the program in the package,
so that arguments, pipes, signals and the exit code are the program's own.

The script `rotary` (python/command.py) runs this file without importing the package and NumPy: it
must import nothing of rotary, but for `rotary export`, which is written in Python.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from typing import NoReturn


def program() -> str | None:
    """The compiled command: bin/rotary in one of the package's folders. An editable install has
    two, that of the sources and that of what was compiled."""
    spec = importlib.util.find_spec("rotary")
    installed = spec.submodule_search_locations if spec is not None else None
    for folder in [os.path.dirname(os.path.abspath(__file__)), *(installed or ())]:
        path = os.path.join(folder, "bin", "rotary")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def main() -> NoReturn:
    if sys.argv[1:2] == ["export"]:
        command = importlib.import_module("rotary._export")
        sys.exit(command.main(sys.argv[2:]))
    path = program()
    if path is None:
        sys.exit("rotary: this package was built without the command (ROTARY_BUILD_TOOLS)")
    # Python ignores these signals, and the program would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(path, ["rotary", *sys.argv[1:]])


if __name__ == "__main__":
    main()
