# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What rotary inspect --json prints is a model again: the same frequencies, bit for bit."""

import json

import numpy as np
import pytest
from command import EXAMPLES, fail, inspect, llama, phi3, succeed, write_config

SCALINGS = {
    "default": {},
    "linear": {"factor": 4},
    "ntk": {"factor": 4, "mixed_b": 0.6},
    "ntk_alpha": {"alpha": 8},
    "dynamic": {"factor": 2},
    "yarn": {"factor": 4, "original_max_position_embeddings": 1024, "mscale": 0.7},
    "yarn_paper": {"factor": 4, "original_max_position_embeddings": 1024},
    "yarn_walkthrough": {"factor": 4, "original_context": 1024, "ramp": "prose"},
    "llama3": {"factor": 8, "original_context": 1024, "low_freq_factor": 1, "high_freq_factor": 4},
    "proportional": {"partial_rotary_factor": 0.5},
    "divisors": {"divisor": [1 + i / 10 for i in range(32)]},
    "learnable": {"log_gain": [i / 100 for i in range(32)]},
    "receptive_field": {"alpha": 0.3, "rho": 0.5},
    "xpos": {"scale_base": 128, "origin": 5},
    "resonance": {},
}
MAPS = {
    "axial": {"type": "axial", "order": "alternating"},
    "mrope": {"type": "mrope", "sections": [12, 10, 10], "order": "interleaved"},
    "mixed": {"type": "mixed", "axes": 2, "frequencies": [0.1 * i for i in range(64)]},
}


def models(folder):
    yield from sorted(EXAMPLES.glob("*.json"))
    yield write_config(folder, phi3(), "phi3.json")
    for name, keys in SCALINGS.items():
        parameters = {"rope_type": name, **keys}
        yield write_config(folder, llama(rope_parameters=parameters), f"{name}.json")
    for name, given in MAPS.items():
        parameters = {"rope_type": "default", "axis_map": given, "direction": "backward"}
        yield write_config(folder, llama(rope_parameters=parameters), f"{name}.json")


def test_inspect_reads_its_own_json(tmp_path):
    for path in models(tmp_path):
        for context in ([], ["--context", "200000"]):
            first = inspect(path, *context)
            again = inspect(write_config(tmp_path, first, "printed.out"), *context)
            assert again == first, path


def test_diff_and_rotate_read_it(tmp_path):
    path = EXAMPLES / "qwen3-vl-text.json"
    printed = write_config(tmp_path, inspect(path), "printed.json")
    assert json.loads(succeed("diff", path, printed, "--json"))["verdict"] == "same rotation"
    x = np.random.default_rng(0).standard_normal((16, 2, 128)).astype(np.float32)
    np.save(tmp_path / "q.npy", x)
    outs = []
    for model in (path, printed):
        out = tmp_path / f"{model.stem}.npy"
        succeed("rotate", model, tmp_path / "q.npy", out, "--positions", "1000:1016")
        outs.append(np.load(out))
    assert (outs[0] == outs[1]).all()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pairing": "both"}, "pairing must be interleaved or half"),
        ({"pairing": None}, "a rope needs the key"),
        ({"recipe": {"type": "yarm"}}, "unknown type"),
        ({"recipe": []}, "must be an object"),
        ({"rotary_dim": 7}, "rotary_dim must be even"),
        ({"axes": ["t", "h"]}, "axes must have 1 names"),
        ({"axis_map": {"type": "mrope", "sections": [1]}}, "sections"),
    ],
)
def test_rejects(tmp_path, change, text):
    printed = inspect(EXAMPLES / "llama-3.1-8b.json")
    printed["ropes"][0].update(change)
    assert text in fail(1, "inspect", write_config(tmp_path, printed))
