# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer finetune in several processes."""

import json
import os
import signal
import socket
import subprocess

import pytest
import torch
from fork_server import ENVIRONMENT
from pretrain_command import metrics, wait_for_step
from safetensors.torch import load_file
from tasks_command import run, save_model

RANKS = 2


def command(tmp_path, data, name, *more):
    train, dev, test = data
    return (
        *("finetune", tmp_path / "base", train, "--valid", dev, "--test", test),
        *("-o", tmp_path / name, "--tokenizer", "byte", "--device", "cpu", "--dropout", 0),
        *("--epochs", 3, "--learning-rate", 3e-3, "--batch", 24, "--report-every", 1),
        *("--json", *more),
    )


def start(arguments):
    """One process per rank, as torchrun starts them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [os.environ["ROFORMER_COMMAND"], *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT | ranks | {"RANK": str(rank)},
        )
        for rank in range(RANKS)
    ]


def run_ranks(arguments, code=0):
    """What rank 0 prints, or the errors of all; the others print nothing."""
    outputs, errors = [], []
    for process in start(arguments):
        out, error = process.communicate(timeout=120)
        assert process.returncode == code, out + error
        outputs.append(out)
        errors.append(error)
    assert outputs[1:] == [""] * (RANKS - 1)
    return outputs[0] if code == 0 else errors


def test_two_processes_match_one(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    one = json.loads(run(*command(tmp_path, reviews, "one")))
    two = json.loads(run_ranks(command(tmp_path, reviews, "two")))
    # 256 examples, 24 a step: the last step of an epoch has 16.
    assert two["steps"] == one["steps"] == 33
    assert metrics(tmp_path / "two") == pytest.approx(metrics(tmp_path / "one"), rel=1e-4)
    for split in ("valid", "test"):
        assert two[split] == pytest.approx(one[split], rel=1e-3)
    weights = [load_file(tmp_path / name / "best/model.safetensors") for name in ("one", "two")]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=0, atol=5e-4)
    # One process finds the run of two complete.
    assert json.loads(run(*command(tmp_path, reviews, "two")))["valid"] == two["valid"]
    message = run_ranks(command(tmp_path, reviews, "odd", "--batch", 25), code=1)
    assert "a batch of 25 rows is not a multiple of 2 processes" in message[0]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_processes_resume(tmp_path, reviews, how):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    whole = run_ranks(command(tmp_path, reviews, "whole"))
    started = start(command(tmp_path, reviews, "run"))
    wait_for_step(tmp_path / "run", 15)
    for process in started:
        process.send_signal(how)
    for process in started:
        process.communicate(timeout=120)
    assert (tmp_path / "run/checkpoints").exists()
    resumed = json.loads(run_ranks(command(tmp_path, reviews, "run")))
    assert resumed["valid"] == json.loads(whole)["valid"]
    same = [tmp_path / name / "best/model.safetensors" for name in ("run", "whole")]
    assert same[0].read_bytes() == same[1].read_bytes()


def test_folds_in_two_processes(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    arguments = (
        *("finetune", tmp_path / "base", reviews[2], "--folds", 2, "--epochs", 2, "--batch", 8),
        *("--tokenizer", "byte", "--device", "cpu", "--dropout", 0, "--json"),
    )
    one = json.loads(run(*arguments))
    two = json.loads(run_ranks(arguments))
    assert two["folds"][0]["measures"] == pytest.approx(one["folds"][0]["measures"], rel=1e-3)
    assert len(two["folds"]) == 2
