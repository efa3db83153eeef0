# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary rotate under faults of the file system: OUT is what it was, or complete."""

import json
import os
import pathlib

import disk
import faults
import numpy as np
import pytest
from safetensors.numpy import save_file

COMMAND = os.environ["ROTARY_COMMAND"]
MODEL = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


class Rotate:
    """A rotation with an existing OUT, other than IN or the same."""

    def __init__(self, folder: pathlib.Path, name: str):
        self.root = folder / "files"
        self.root.mkdir()
        self.log = folder / "log"
        model = folder / "config.json"
        model.write_text(json.dumps(MODEL))
        values = np.arange(6 * 2 * 64, dtype=np.float32).reshape(6, 2, 64)
        if name == "out.npy":
            np.save(folder / "in.npy", values)
            source = folder / "in.npy"
            (self.root / name).write_bytes(b"the old file")
        else:
            source = self.root / name
            save_file({"k": values, "other": values[:1]}, source)
        self.out = self.root / name
        self.command = [COMMAND, "rotate", model, source, self.out, "--positions", "7:"]
        if name != "out.npy":
            self.command += ["--tensor", "k"]
        self.old = self.out.read_bytes()
        assert faults.run(self.command, self.root).returncode == 0
        self.new = self.out.read_bytes()
        assert self.new != self.old
        self.restore()

    def restore(self) -> None:
        self.out.write_bytes(self.old)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.root))


@pytest.fixture(params=["out.npy", "in_place.safetensors"])
def rotate(request, tmp_path):
    return Rotate(tmp_path, request.param)


@pytest.mark.parametrize("action", ["full", "eio"])
def test_disk_full_at_every_operation(rotate, action):
    count = 0
    for where, done in faults.faults(rotate.command, rotate.root, action, rotate.log):
        left = rotate.out.read_bytes()
        assert left in (rotate.old, rotate.new), where
        # What is removed or closed after the rename may fail without harm.
        if done.returncode == 0:
            assert left == rotate.new and where.startswith(("remove", "close")), where
        else:
            assert faults.is_one_line(done), (where, done.stderr)
        assert rotate.names() == [rotate.out.name], where
        rotate.restore()
        count += 1
    assert count >= 8


def test_killed_at_every_operation(rotate):
    at = 1
    while faults.killed(rotate.command, rotate.root, at):
        assert rotate.out.read_bytes() in (rotate.old, rotate.new), at
        rotate.restore()
        at += 1
    assert at > 8
    # What the killed ones left is removed once nobody can be at work there any more.
    for path in rotate.root.glob(".rotary-*"):
        os.utime(path, (0, 0))
    rotate.restore()
    assert faults.run(rotate.command, rotate.root).returncode == 0
    assert rotate.names() == [rotate.out.name]


def test_power_failure_at_every_operation(rotate, tmp_path):
    recording = faults.record(rotate.command, rotate.root, rotate.log)
    name = rotate.out.name
    states = 0
    for count, seen, left in recording.cuts:
        for state in left:
            assert state[name] in (rotate.old, rotate.new), count
            states += 1
        if count == len(recording.operations):
            assert all(state[name] == rotate.new for state in left)
            assert seen[name] == rotate.new
    assert states >= 10


def test_power_failure_is_found_if_nothing_is_synced(rotate):
    """The test above can fail: without an fsync, OUT could be empty."""
    recording = faults.record(rotate.command, rotate.root, rotate.log)
    kept = [operation for operation in recording.operations if operation.kind != "sync"]
    broken = disk.Recording(recording.before, kept)
    found = {state[rotate.out.name] for _, _, left in broken.cuts for state in left}
    assert b"" in found and rotate.old in found and rotate.new in found
