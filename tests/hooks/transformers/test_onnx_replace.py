# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.onnx.replace on a model of transformers that torch.onnx has exported."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PhiConfig

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


def exported(config, path, optimize):
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    ids, positions = torch.arange(3, 11).reshape(1, 8), torch.arange(8).reshape(1, 8)
    torch.onnx.export(
        Logits(model), (ids, positions), path, input_names=["input_ids", "position_ids"],
        opset_version=23, dynamo=True, external_data=False, optimize=optimize,
    )  # fmt: skip
    return onnx.load(path)


def run(model, ids, positions):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
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
