# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the command rotary for the tests, and writes the small files that they feed it."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = ROOT / "examples" / "models"
COMMAND = (
    os.environ.get("ROTARY_COMMAND") or os.environ.get("ROTARY") or str(ROOT / "build/bin/rotary")
)


def run(*arguments, **environment):
    """The finished process, never checked; output as text. UTF-8 and no terminal, unless told."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80", **environment}
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=env,
        timeout=60,
        check=False,
    )


def succeed(*arguments, **environment):
    """stdout of a run that must succeed."""
    done = run(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(code, *arguments):
    """The one line on stderr of a run that must fail with this exit code and print nothing else."""
    done = run(*arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("rotary: ") and done.stderr.count("\n") == 1, done.stderr
    assert "terminate called" not in done.stderr
    return done.stderr


def inspect(*arguments):
    return json.loads(succeed("inspect", *arguments, "--json"))


def write_config(folder, config, name="config.json"):
    path = folder / name
    path.write_text(json.dumps(config))
    return path


def leftovers(folder):
    """Hidden files and folders: what an unfinished run would leave."""
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def llama(**changes):
    """A small Llama config: heads of 64."""
    return {
        "model_type": "llama",
        "hidden_size": 256,
        "num_attention_heads": 4,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        **changes,
    }


def phi3(pairs=48, original=4096):
    return {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": original,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0 + i / 100 for i in range(pairs)],
            "long_factor": [2.0 + i for i in range(pairs)],
        },
    }
