# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Small models served by vLLM with the installed plugin, which its entry point loads."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

import rotary
from model import CONFIGS, LONG, LONG_CONFIG, long_prompt, write_model

SCRIPT = pathlib.Path(__file__).with_name("serve.py")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {name: tmp_path_factory.mktemp(name) for name in CONFIGS}
    for name, folder in made.items():
        write_model(name, folder)
    return made


def run(folder, mode, *arguments):
    """What vLLM generates, and what it logs."""
    out = folder / f"{mode}.json"
    environment = {**os.environ, "ROTARY_VLLM": mode}
    del environment["VLLM_PLUGINS"]
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, out, *map(str, arguments)],
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


class ExactRotary(torch.nn.Module):
    """cos and sin of a model of transformers in float64."""

    def forward(self, x, position_ids):
        head_dim, theta = LONG_CONFIG["head_dim"], LONG_CONFIG["rope_parameters"]["rope_theta"]
        rope = rotary.Rope(head_dim=head_dim, theta=theta, pairing="half")
        both = rope.cos_sin(position_ids[0].numpy(), dtype="float64")
        return [torch.from_numpy(np.concatenate((t, t), -1))[None] for t in both]


def in_float64(folder):
    """Logprobs of all tokens after the long prompt, by transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa")
    model = model.double().eval()
    model.model.rotary_emb = ExactRotary()
    ids = torch.tensor([long_prompt(LONG)])
    with torch.no_grad():
        states = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
        return model.lm_head(states).log_softmax(-1)[0]


def test_exact_angles_at_a_long_position(tmp_path):
    """After 32,768 tokens exact mode is nearer to float64 than vLLM's table is."""
    write_model("long", tmp_path)
    right = in_float64(tmp_path)
    errors = {}
    for mode in ("off", "exact"):
        found, log = run(tmp_path, mode, LONG)
        assert found is not None, log
        assert len(found) >= 250
        errors[mode] = max(abs(p - float(right[int(token)])) for token, p in found.items())
    print(f"largest error of a logprob: {errors}")
    assert errors["exact"] < 0.25 * errors["off"]


def test_rejects_another_mode(folders):
    results, log = run(folders["llama3"], "fast")
    assert results is None
    assert "[rotary_vllm] ROTARY_VLLM must be one of ('table', 'exact', 'off'), got 'fast'" in log
