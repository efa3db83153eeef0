# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""scripts/progress.sh: what people see while make's targets work."""

import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def start(script, folder):
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.Popen(
        ["bash", "-c", f"set -euo pipefail; . {ROOT}/scripts/progress.sh; {script}"],
        cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_line_every_five_seconds_across_commands(tmp_path):
    steps = 'sh -c "echo [7/9] Building; sleep 6; echo [8/9] Linking"'
    script = f"with_progress log configuring sleep 3.5; with_progress log building {steps}"
    begun = last = time.monotonic()
    lines = []
    with start(script, tmp_path) as process:
        for line in process.stdout:
            now = time.monotonic()
            assert now - last < 6.5, lines  # 5 s, and what a busy machine adds
            last = now
            lines.append(line)
    assert process.returncode == 0
    assert lines[0].endswith(" s: 7 of 9 steps\n") or lines[0].endswith(" s: configuring\n")
    assert lines[-1].endswith(" s: 7 of 9 steps\n") and len(lines) >= 2
    assert time.monotonic() - begun > 9
    assert (tmp_path / "log").read_text() == "[7/9] Building\n[8/9] Linking\n"


def test_a_command_that_fails(tmp_path):
    script = "with_progress log working sh -c 'echo why; exit 3' || echo failed with $?"
    with start(script, tmp_path) as process:
        assert process.stdout.read() == "failed with 3\n"
    assert (tmp_path / "log").read_text() == "why\n"


def test_no_command_outlives_an_interrupted_script(tmp_path):
    with start("with_progress log working sh -c 'echo $$; exec sleep 60'", tmp_path) as process:
        while not (tmp_path / "log").is_file() or not (tmp_path / "log").read_text():
            time.sleep(0.01)
        command = int((tmp_path / "log").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) != 0
    for _ in range(500):
        if not pathlib.Path(f"/proc/{command}").exists():
            return
        time.sleep(0.01)
    os.kill(command, signal.SIGKILL)
    raise AssertionError("the command still runs")
