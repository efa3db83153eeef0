# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A small model served by vLLM with the installed plugin, which its entry point loads."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from model import CONFIGS, write_model

SCRIPT = pathlib.Path(__file__).with_name("serve.py")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {name: tmp_path_factory.mktemp(name) for name in CONFIGS}
    for name, folder in made.items():
        write_model(name, folder)
    return made


def run(folder, mode):
    """What vLLM generates, and what it logs."""
    out = folder / f"{mode}.json"
    environment = {**os.environ, "ROTARY_VLLM": mode}
    del environment["VLLM_PLUGINS"]
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, out],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    log = done.stdout + done.stderr
    if done.returncode != 0:
        return None, log
    return json.loads(out.read_text()), log


def generated(results):
    return [(each["tokens"], each["text"]) for each in results]


@pytest.mark.parametrize("name", CONFIGS)
def test_modes(folders, name):
    """Greedy output is that of vLLM alone, word for word; the log says what was replaced. In
    float32: vLLM's build for AArch64 needs instructions for bfloat16, which not every CPU has."""
    folder = folders[name]
    plain, log = run(folder, "off")
    assert plain is not None, log
    assert "rotary: nothing replaced (ROTARY_VLLM=off)" in log
    assert all(len(set(each["tokens"])) > 3 for each in plain)  # not one token for ever

    by_table, log = run(folder, "table")
    assert by_table is not None, log
    assert "rotary: replaced the kernel _C::rotary_embedding (CPU)" in log
    assert generated(by_table) == generated(plain)

    exact, log = run(folder, "exact")
    assert exact is not None, log
    assert "rotary: exact angles in RotaryEmbedding, " in log
    # At positions below 1,024, float32 angles are still good.
    assert generated(exact) == generated(plain)
    for ours, theirs in zip(exact, plain, strict=True):
        assert ours["logprobs"] == pytest.approx(theirs["logprobs"], abs=1e-3)
    # The replacement does run: not every bit is the same.
    assert [each["logprobs"] for each in exact] != [each["logprobs"] for each in plain]


def test_rejects_another_mode(folders):
    results, log = run(folders["llama3"], "fast")
    assert results is None
    assert "[rotary_vllm] ROTARY_VLLM must be one of ('table', 'exact', 'off'), got 'fast'" in log
