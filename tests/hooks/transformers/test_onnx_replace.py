# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.onnx.replace on a model of transformers that torch.onnx has exported."""

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    Phi3Config,
    PhiConfig,
)

import rotary

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 65536,
    "initializer_range": 0.3,
}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position_ids):
        return self.model(input_ids=input_ids, position_ids=position_ids, use_cache=False).logits


def model_of(config):
    torch.manual_seed(5)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def exported(config, path, optimize):
    model = model_of(config)
    ids, positions = torch.arange(3, 11).reshape(1, 8), torch.arange(8).reshape(1, 8)
    torch.onnx.export(
        Logits(model), (ids, positions), path, input_names=["input_ids", "position_ids"],
        opset_version=23, dynamo=True, external_data=False, optimize=optimize,
    )  # fmt: skip
    return onnx.load(path)


def run(model, ids, positions):
    options = onnxruntime.SessionOptions()
    rotary.onnx.register(options)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"input_ids": ids, "position_ids": positions})[0]


@pytest.mark.parametrize(
    "config",
    [LlamaConfig(**SIZES), PhiConfig(**SIZES, partial_rotary_factor=0.5)],
    ids=lambda config: config.model_type,
)
@pytest.mark.parametrize("optimize", [False, True], ids=["operations", "operators"])
def test_exported_model(tmp_path, config, optimize):
    """torch.onnx writes single operations, or, if it optimises, RotaryEmbedding."""
    before = exported(config, tmp_path / "model.onnx", optimize)
    has_operator = any(node.op_type == "RotaryEmbedding" for node in before.graph.node)
    assert has_operator == optimize
    rope = rotary.Rope.from_pretrained(config)
    after, count = rotary.onnx.replace(before, rope, length=65536)
    assert count == 2 * SIZES["num_hidden_layers"]  # q and k
    kinds = [node.op_type for node in after.graph.node]
    assert kinds.count("RotaryEmbedding") == count
    assert not {"Cos", "Sin"} & set(kinds)
    ids = np.arange(3, 11).reshape(1, 8)
    near = run(before, ids, np.arange(8).reshape(1, 8))
    assert np.abs(run(after, ids, np.arange(8).reshape(1, 8)) - near).max() < 1e-4
    # Far away scores depend on the distances alone: exact angles keep the logits, float32 ones do
    # not.
    far = np.arange(65000, 65008).reshape(1, 8)
    assert np.abs(run(after, ids, far) - near).max() < 1e-4
    assert np.abs(run(before, ids, far) - near).max() > 1e-3


@pytest.fixture(scope="module")
def exported_once(tmp_path_factory):
    found = {}

    def make(config, optimize):
        key = (config.model_type, optimize)
        if key not in found:
            found[key] = exported(config, tmp_path_factory.mktemp("onnx") / "model.onnx", optimize)
        return found[key]

    return make


#: Layers with two thetas.
GEMMA3 = Gemma3TextConfig(
    **SIZES, head_dim=16, sliding_window=4096, layer_types=["sliding_attention", "full_attention"]
)


@pytest.mark.parametrize("options", [{"length": 65536}, {"exact": True}], ids=["caches", "exact"])
@pytest.mark.parametrize("optimize", [False, True], ids=["operations", "operators"])
def test_gemma_3_needs_the_rope_of_each_kind_of_layer(exported_once, optimize, options):
    before = exported_once(GEMMA3, optimize)
    ropes = {rope.name: rope for rope in rotary.Model.from_config(GEMMA3.to_dict()).ropes}
    assert sorted(ropes) == ["full_attention", "sliding_attention"]
    for one in ropes.values():
        with pytest.raises(ValueError, match="give a rope for each source of cos and sin") as error:
            rotary.onnx.replace(before, one, **options)
    first, second = re.findall(r"'(\w+)' \(of", str(error.value))
    with pytest.raises(ValueError, match="differ from the rope's"):
        swapped = {first: ropes["full_attention"], second: ropes["sliding_attention"]}
        rotary.onnx.replace(before, swapped, **options)
    each = {first: ropes["sliding_attention"], second: ropes["full_attention"]}
    after, count = rotary.onnx.replace(before, each, **options)
    kinds = [node.op_type for node in after.graph.node]
    assert count == 4 and not {"Cos", "Sin"} & set(kinds)
    ids = np.arange(3, 11).reshape(1, 8)
    near = run(before, ids, np.arange(8).reshape(1, 8))
    assert np.abs(run(after, ids, np.arange(8).reshape(1, 8)) - near).max() < 1e-4
    far = np.arange(65000, 65008).reshape(1, 8)
    error = np.abs(run(after, ids, far) - near).max()
    assert error < 1e-4 and np.abs(run(before, ids, far) - near).max() > 2 * error


ORIGINAL = 4096
PHI3 = Phi3Config(
    **SIZES,
    pad_token_id=0,
    original_max_position_embeddings=ORIGINAL,
    rope_parameters={
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + i / 8 for i in range(8)],
        "long_factor": [4.0 + i for i in range(8)],
        "original_max_position_embeddings": ORIGINAL,
    },
)


@pytest.mark.parametrize("optimize", [False, True], ids=["operations", "operators"])
def test_both_regimes_of_longrope(tmp_path, optimize):
    before = exported(PHI3, tmp_path / "model.onnx", optimize)
    found = rotary.Model.from_config(PHI3.to_dict()).rope()
    for context in (ORIGINAL, 65536):  # a Rope has one of the regimes, the graph both
        with pytest.raises(ValueError, match="differ from the rope's at position"):
            rotary.onnx.replace(before, found.make_rope(context), length=65536)
    model, ids = model_of(PHI3), np.arange(3, 11).reshape(1, 8)
    for options in ({"length": 65536}, {"exact": True}):
        after, count = rotary.onnx.replace(before, found, **options)
        assert count == 4
        for first in (0, ORIGINAL - 8, ORIGINAL - 7, 8192):
            at = np.arange(first, first + 8).reshape(1, 8)
            with torch.no_grad():
                wanted = model(
                    torch.from_numpy(ids), position_ids=torch.from_numpy(at), use_cache=False
                ).logits.numpy()
            assert np.abs(run(before, ids, at) - wanted).max() < 5e-4
            assert np.abs(run(after, ids, at) - wanted).max() < 5e-3
