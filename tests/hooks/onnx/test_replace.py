# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.onnx.replace on graphs as exporters write them; tests/hooks/transformers exports one."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import rotary

HEAD, PAIRS = 16, 8


def constant(name, values):
    return numpy_helper.from_array(np.asarray(values, np.int64), name)


def exported(opset=23, halves="slice", pairs=PAIRS, kind=TensorProto.FLOAT, rotate=True):
    """q rotated as in transformers: float32 angles of position_ids, cos and sin twice."""
    make = helper.make_node
    frequencies = (10000.0 ** (-np.arange(pairs) / pairs)).astype(np.float32)
    tensors = [
        numpy_helper.from_array(frequencies.reshape(1, 1, pairs), "inv_freq"),
        *(constant(name, value) for name, value in
          [("zero", [0]), ("half", [pairs]), ("end", [2**63 - 1]), ("last", [-1]),
           ("heads_axis", [1]), ("ids_axis", [2])]),
    ]  # fmt: skip
    nodes = [
        make("Unsqueeze", ["position_ids", "ids_axis"], ["ids3"]),
        make("Cast", ["ids3"], ["ids_float"], to=TensorProto.FLOAT),
        make("Mul", ["ids_float", "inv_freq"], ["angles"]),
        make("Concat", ["angles", "angles"], ["both"], axis=-1),
    ]
    for name in ("Cos", "Sin"):
        nodes += [
            make(name, ["both"], [f"{name}3"]),
            make("Cast", [f"{name}3"], [f"{name}t"], to=kind),
            make("Unsqueeze", [f"{name}t", "heads_axis"], [name]),
        ]
    if halves == "slice":
        nodes += [
            make("Slice", ["q", "zero", "half", "last"], ["x1"]),
            make("Slice", ["q", "half", "end", "last"], ["x2"]),
        ]
    else:
        nodes.append(make("Split", ["q"], ["x1", "x2"], axis=-1, num_outputs=2))
    nodes += [
        make("Neg", ["x2"], ["minus"]),
        make("Concat", ["minus", "x1"], ["rotated"], axis=-1),
        make("Mul", ["q", "Cos"], ["a"]),
        make("Mul", ["rotated", "Sin"], ["b"]),
        make("Add" if rotate else "Sub", ["a", "b"], ["out"]),
    ]
    shape = ["batch", 2, "tokens", 2 * pairs]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "exported",
        [value("q", kind, shape), value("position_ids", TensorProto.INT64, ["batch", "tokens"])],
        [value("out", kind, shape)],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def rope(**changes):
    return rotary.Rope(**{"head_dim": HEAD, "theta": 10000.0, "pairing": "half", **changes})


def run(model, **feeds):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


@pytest.mark.parametrize("halves", ["slice", "split"])
def test_replaces_the_rotation_alone(halves):
    before = exported(halves=halves)
    text = before.SerializeToString()
    after, count = rotary.onnx.replace(before, rope(), length=100_000)
    assert count == 1 and before.SerializeToString() == text
    assert [node.op_type for node in after.graph.node] == ["RotaryEmbedding"]
    assert {t.name for t in after.graph.initializer} == {"rotary.cos_cache", "rotary.sin_cache"}
    onnx.checker.check_model(after, full_check=True)
    q = np.random.default_rng(0).standard_normal((2, 2, 3, HEAD)).astype(np.float32)
    near = np.array([[0, 1, 2], [3, 4, 5]])
    assert np.allclose(run(before, q=q, position_ids=near), run(after, q=q, position_ids=near),
                       atol=1e-6)  # fmt: skip
    far = np.array([[99_999, 50_001, 7], [1, 2, 3]])
    exact = np.stack(
        [
            rope().rotate(row.swapaxes(0, 1).astype(np.float64), positions=ids).swapaxes(0, 1)
            for row, ids in zip(q, far, strict=True)
        ]
    )
    assert np.abs(run(before, q=q, position_ids=far) - exact).max() > 1e-4
    assert np.abs(run(after, q=q, position_ids=far) - exact).max() < 1e-6


def test_keeps_the_type():
    after, _ = rotary.onnx.replace(exported(kind=TensorProto.FLOAT16), rope(), length=64)
    assert after.graph.initializer[0].data_type == TensorProto.FLOAT16
    q = np.ones((1, 2, 1, HEAD), np.float16)
    assert run(after, q=q, position_ids=np.array([[7]])).dtype == np.float16


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_replaces_the_caches_of_the_operator(pairing):
    """RotaryEmbedding with cos and sin of the graph, partial, as torch.onnx writes it."""
    partial = rope(pairing=pairing, head_dim=24, rotary_dim=HEAD)
    before = exported()
    del before.graph.node[4:]
    before.graph.node.extend(
        [
            helper.make_node("Cos", ["angles"], ["Cos"]),
            helper.make_node("Sin", ["angles"], ["Sin"]),
            helper.make_node(
                "RotaryEmbedding",
                ["q", "Cos", "Sin"],
                ["out"],
                interleaved=int(pairing == "interleaved"),
                rotary_embedding_dim=HEAD,
            ),
        ]
    )
    for value in (before.graph.input[0], before.graph.output[0]):
        value.type.tensor_type.shape.dim[3].dim_value = 24
    after, count = rotary.onnx.replace(before, partial, length=100_000)
    assert count == 1 and [node.op_type for node in after.graph.node] == ["RotaryEmbedding"]
    q = np.random.default_rng(1).standard_normal((1, 2, 2, 24)).astype(np.float32)
    ids = np.array([[5, 99_999]])
    exact = partial.rotate(q[0].swapaxes(0, 1).astype(np.float64), positions=ids[0])
    assert np.abs(run(after, q=q, position_ids=ids)[0] - exact.swapaxes(0, 1)).max() < 1e-6
    assert np.abs(run(before, q=q, position_ids=ids)[0] - exact.swapaxes(0, 1)).max() > 1e-4


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ({"opset": 18}, {}, "opset must be 23"),
        ({"rotate": False}, {}, "the graph has no rotation of a known form"),
        ({"pairs": 4}, {}, "has 8 rotary dims, the rope 16"),
        ({"kind": TensorProto.DOUBLE}, {}, "got double"),
        ({}, {"position_ids": "positions"}, "no int64 value 'positions'"),
        ({}, {"rope": rope(pairing="interleaved")}, "pairs 'q' as half, the rope as interleaved"),
        ({}, {"length": 0}, "length must be at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_rejects(model, options, message):
    arguments = {"length": 64, **options}
    with pytest.raises(ValueError, match=r"^\[replace\]") as error:
        rotary.onnx.replace(exported(**model), arguments.pop("rope", rope()), **arguments)
    assert message in str(error.value)
