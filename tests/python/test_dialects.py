# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.inspect(dialect=...), rotary.diff and rotary.plan: the output of the commands as data."""

import json
import os
import subprocess

import pytest
from definition import MODELS, ROOT

import rotary

GPT_OSS = MODELS / "gpt-oss-20b.json"
QWEN = MODELS / "qwen2.5-7b-yarn.json"


def command(*arguments):
    done = subprocess.run(
        [os.environ.get("ROTARY_COMMAND", ROOT / "build" / "bin" / "rotary"), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80"},
    )
    return done.stdout


def cases():
    """Two models in every dialect, and every model in one."""
    for dialect in [each.full_name for each in rotary.known_dialects()]:
        for path in sorted(MODELS.glob("*.json")):
            if path in (GPT_OSS, QWEN) or dialect == "vllm@0.32":
                yield pytest.param(path, dialect, id=f"{path.stem}-{dialect}")


@pytest.mark.parametrize("path, dialect", cases())
def test_data_equals_the_commands(path, dialect):
    seen = rotary.inspect(path, dialect=dialect)
    assert seen.data == json.loads(command("inspect", str(path), "--dialect", dialect, "--json"))
    assert seen.dialect is not None and seen.dialect.full_name == dialect
    found = rotary.diff(path, dialect)
    assert found.data == json.loads(command("diff", str(path), "--dialect", dialect, "--json"))


def test_text_equals_the_commands():
    assert repr(rotary.diff(str(QWEN), "mlx-lm", "sglang")) == command(
        "diff", str(QWEN), "--dialect", "sglang", "--dialect", "mlx-lm"
    ).rstrip("\n")
    assert repr(rotary.plan(str(QWEN), 262144, engine="vllm")) == command(
        "plan", str(QWEN), "--context", "262144", "--engine", "vllm"
    ).rstrip("\n")
    said = {
        line.rstrip() for line in command("inspect", str(QWEN), "--dialect", "vllm").split("\n")
    }
    shown = repr(rotary.inspect(str(QWEN), dialect="vllm")).splitlines()
    assert [line for line in shown if line.rstrip() not in said] == []


def test_diff():
    found = rotary.diff(GPT_OSS, "llama.cpp")
    (rope,) = found.ropes
    assert not found.same and found.a == "hf@5.23" and found.b == "llama.cpp@2026-08"
    assert rope["dropped_keys"]["b"] == ["truncate"] and rope["first_position"] == 453
    assert rotary.diff(GPT_OSS, "hf").same
    assert rotary.diff(json.loads(GPT_OSS.read_text()), "llama.cpp").ropes == found.ropes


def test_a_dialect_changes_the_rope():
    plain, other = rotary.inspect(QWEN), rotary.inspect(QWEN, dialect="onnxruntime-genai@2026-08")
    assert plain.rope().rope.make_frequencies().scale == pytest.approx(1.1386, abs=1e-4)
    assert other.rope().rope.make_frequencies().scale == 1
    assert plain.dialect is None and "dialect" not in plain.data


def test_plan():
    made = rotary.plan(QWEN, 262144, engine="hf")
    assert made.coverage == "beyond"
    assert made.data == json.loads(
        command("plan", str(QWEN), "--context", "262144", "--engine", "hf", "--json")
    )
    yarn = next(option for option in made.options if option["recipe"] == "yarn")
    assert yarn["rope_parameters"]["factor"] == 8 and yarn["pairs_unseen"] == 0
    assert rotary.plan(QWEN, 4096).coverage == "trained"


def test_rejects(tmp_path):
    with pytest.raises(ValueError, match=r'unknown dialect "ollama"; known are hf@5\.23'):
        rotary.inspect(QWEN, dialect="ollama")
    with pytest.raises(ValueError, match="no rope named"):
        rotary.diff(QWEN, "vllm", rope="vision")
    with pytest.raises(TypeError, match="a config is a path"):
        rotary.diff(rotary.Model.read(QWEN), "vllm")
    with pytest.raises(ValueError, match="ollama"):
        rotary.plan(QWEN, 262144, engine="ollama")
    with pytest.raises(rotary.IoError):
        rotary.plan(tmp_path / "none.json", 1)
