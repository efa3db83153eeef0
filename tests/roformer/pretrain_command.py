# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer pretrain on a tiny model, for its tests."""

import json
import os
import signal
import subprocess
import time

import fork_server
import torch
from safetensors.torch import load_file

MODEL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
}
# Long enough that a kill finds them at work.
STAGES = "32x4x9,48x2x91"
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def flags(corpus, steps=12, model=None, **others):
    given = {
        "corpus": corpus,
        "tokenizer": "byte",
        "device": "cpu",
        "model": json.dumps(MODEL | (model or {})),
        "stages": f"32x4x{steps}",
        "learning-rate": 0.01,
        "warmup-steps": 2,
        "report-every": 1,
        "save-every": 4,
        "threads": 1,
    }
    given |= {name.replace("_", "-"): value for name, value in others.items()}
    return [text for name, value in given.items() for text in (f"--{name}", str(value))]


def start(run, *arguments, environment=None, output=subprocess.PIPE, **options):
    return subprocess.Popen(
        [os.environ["ROFORMER_COMMAND"], "pretrain", str(run), *map(str, arguments)],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}),
        **options,
    )


def pretrain(run, *arguments, code=0, **options):
    """Output of the command; its one-line error if it fails."""
    if options:
        process = start(run, *arguments, **options)
        out, error = process.communicate()
        done = subprocess.CompletedProcess(process.args, process.returncode, out, error)
    else:
        done = fork_server.run("pretrain", run, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    if code == 0:
        assert done.stderr == ""
        return done.stdout
    assert done.stderr.startswith("roformer: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def metrics(run, name="loss"):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if name in line}


def weights(run):
    return load_file(run / "model/model.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def wait_for_step(run, step):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        path = run / "metrics.jsonl"
        if path.exists() and f'"step":{step},' in path.read_text():
            return
        time.sleep(0.005)
    raise TimeoutError


def kill(process):
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
