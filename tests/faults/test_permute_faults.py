# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary permute with a failing disk, killed, and cut off from power, at every operation on files:
OUT is not there, or it is complete."""

import json
import os
import shutil

import disk
import faults
import numpy as np
import pytest
from safetensors.numpy import save_file

COMMAND = os.environ["ROTARY_COMMAND"]
MODEL = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_attention_heads": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


class Permute:
    """The command on a model of two shards, with OUT in a folder that holds nothing else."""

    def __init__(self, folder):
        self.root = folder / "files"
        self.root.mkdir()
        self.log = folder / "log"
        model = folder / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(MODEL))
        for layer in (0, 1):
            weights = {
                f"layers.{layer}.self_attn.{name}.weight": np.arange(256, dtype=np.float32).reshape(
                    16, 16
                )
                for name in ("q_proj", "k_proj", "v_proj")
            }
            save_file(weights, model / f"part-{layer}.safetensors")
        self.command = [COMMAND, "permute", model, "--to", "interleaved", "-o", self.root / "out"]
        assert faults.run(self.command, self.root).returncode == 0
        self.complete = disk.tree(self.root)
        assert len(self.complete) == 4
        self.clear()

    def clear(self):
        for path in self.root.iterdir():
            shutil.rmtree(path)

    def is_whole(self, tree):
        """Whether OUT is complete; it may not be there at all."""
        found = {path: data for path, data in tree.items() if path.split("/")[0] == "out"}
        assert found in ({}, self.complete), sorted(found)
        return bool(found)


@pytest.fixture
def permute(tmp_path):
    return Permute(tmp_path)


@pytest.mark.parametrize("action", ["full", "eio"])
def test_disk_full_at_every_operation(permute, action):
    count = 0
    for where, done in faults.faults(permute.command, permute.root, action, permute.log):
        left = disk.tree(permute.root)
        whole = permute.is_whole(left)
        if done.returncode == 0:
            assert whole, where
        else:
            assert faults.is_one_line(done), (where, done.stderr)
        assert set(left) <= set(permute.complete), where
        permute.clear()
        count += 1
    assert count >= 12


def test_killed_at_every_operation(permute):
    at = 1
    while faults.killed(permute.command, permute.root, at):
        permute.is_whole(disk.tree(permute.root))
        permute.clear()
        at += 1
    assert at > 12


def test_power_failure_at_every_operation(permute):
    recording = faults.record(permute.command, permute.root, permute.log)
    states = 0
    for count, _, left in recording.cuts:
        for state in left:
            whole = permute.is_whole(state)
            assert whole or count < len(recording.operations)
            states += 1
    assert states >= 10
