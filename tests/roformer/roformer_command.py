# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The command roformer and small models, for its tests."""

import os
import resource
import subprocess
from pathlib import Path

import fork_server
import torch
import transformers

GOLDEN = Path(__file__).parent / "golden"
CHECKPOINTS = GOLDEN / "checkpoints"


def run(*arguments, code=0, largest_file=None):
    """Output of the command; its one-line error if it fails."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    if largest_file is None:
        done = fork_server.run(*arguments)
    else:
        done = subprocess.run(
            [os.environ["ROFORMER_COMMAND"], *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit,
            restore_signals=False,  # a file too large is an error of write(), not a signal
        )
    assert done.returncode == code, done.stdout + done.stderr
    if code == 0:
        assert done.stderr == ""
        return done.stdout
    assert done.stderr.startswith("roformer: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def golden(name):
    return CHECKPOINTS / f"{name}.safetensors", CHECKPOINTS / f"{name}.io.json"


def config(**others):
    small = {
        "vocab_size": 61,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "initializer_range": 0.1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return small | others


def make(kind, **others):
    torch.manual_seed(3)
    return getattr(transformers, kind)(transformers.RoFormerConfig(**config(**others))).eval()
