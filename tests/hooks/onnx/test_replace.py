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


def exported(
    opset=23, halves="slice", pairs=PAIRS, kind=TensorProto.FLOAT, rotate=True, theta=10000.0
):
    """q rotated as in transformers: float32 angles of position_ids, cos and sin twice."""
    make = helper.make_node
    frequencies = (theta ** (-np.arange(pairs) / pairs)).astype(np.float32)
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


def two_layers(theta):
    """Layers with cos and sin of their own: of theta 10,000, and of another."""
    both, second = exported(), onnx.compose.add_prefix(exported(theta=theta), "local.")
    for node in second.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = name.replace("local.position_ids", "position_ids")
    both.graph.node.extend(second.graph.node)
    both.graph.initializer.extend(second.graph.initializer)
    both.graph.input.append(second.graph.input[0])
    both.graph.output.append(second.graph.output[0])
    return both


def with_constant_caches(theta=10000.0, rows=100):
    """RotaryEmbedding with caches that another exporter computed in float32."""
    before = exported()
    angles = np.arange(rows, dtype=np.float32)[:, None] * (
        theta ** (-np.arange(PAIRS, dtype=np.float32) / PAIRS)
    ).astype(np.float32)
    del before.graph.node[:]
    del before.graph.initializer[:]
    before.graph.node.append(
        helper.make_node("RotaryEmbedding", ["q", "cos", "sin", "position_ids"], ["out"])
    )
    before.graph.initializer.extend(
        [numpy_helper.from_array(f(angles), name) for f, name in ((np.cos, "cos"), (np.sin, "sin"))]
    )
    return before


def read_rope(scaling, **changes):
    """A rope of rotary.Model, whose recipe has a scaling."""
    config = {
        "model_type": "llama", "hidden_size": 2 * HEAD, "num_attention_heads": 2,
        "rope_theta": 10000.0, "max_position_embeddings": 256, "rope_scaling": scaling, **changes,
    }  # fmt: skip
    return rotary.Model.from_config(config).rope()


LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * PAIRS,
    "long_factor": [4.0 + i for i in range(PAIRS)],
    "original_max_position_embeddings": 64,
    "attention_factor": 1.0,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 256}


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


def exactly(own, q, positions):
    return own.rotate(q[0].swapaxes(0, 1).astype(np.float64), positions=positions[0]).swapaxes(0, 1)


@pytest.mark.parametrize("options", [{"length": 4096}, {"exact": True}], ids=["caches", "exact"])
def test_two_sources_need_two_ropes(options):
    """One rope for both would give the second layer the angles of the first."""
    before, local = two_layers(1e6), rope(theta=1e6)
    for one in (rope(), local):
        with pytest.raises(ValueError, match=r"^\[replace\] cos and sin of") as error:
            rotary.onnx.replace(before, one, **options)
        assert "differ from the rope's at position" in str(error.value)
        assert "'Cos' (of 'q'), 'local.Cos' (of 'local.q')" in str(error.value)
    with pytest.raises(ValueError, match=r"got ropes for \['Cos'\]"):
        rotary.onnx.replace(before, {"Cos": rope()}, **options)
    with pytest.raises(ValueError, match=r"'local\.Cos' differ from the rope's"):
        rotary.onnx.replace(before, {"Cos": rope(), "local.Cos": rope()}, **options)
    after, count = rotary.onnx.replace(before, {"Cos": rope(), "local.Cos": local}, **options)
    assert count == 2
    session_options = onnxruntime.SessionOptions()
    rotary.onnx.register(session_options)
    session = onnxruntime.InferenceSession(after.SerializeToString(), session_options)
    q, ids = np.random.default_rng(2).standard_normal((1, 2, 3, HEAD)), np.array([[7, 50, 4095]])
    q = q.astype(np.float32)
    found = session.run(None, {"q": q, "local.q": q, "position_ids": ids})
    assert np.abs(found[0][0] - exactly(rope(), q, ids)).max() < 1e-6
    assert np.abs(found[1][0] - exactly(local, q, ids)).max() < 1e-6


def test_one_source_that_is_computed_twice():
    after, count = rotary.onnx.replace(two_layers(10000.0), rope(), length=64)
    assert count == 2
    assert {t.name for t in after.graph.initializer} == {"rotary.cos_cache", "rotary.sin_cache"}


def test_sources_that_the_graph_is_given():
    """Nothing is known of their values: two of them need a rope each."""
    before = exported()
    del before.graph.node[:]
    value, make = helper.make_tensor_value_info, helper.make_node
    for i, name in enumerate(("first", "second")):
        cos, sin, x = f"{name}.cos", f"{name}.sin", "q" if i == 0 else "again"
        before.graph.input.extend(
            value(n, TensorProto.FLOAT, ["batch", "tokens", PAIRS]) for n in (cos, sin)
        )
        before.graph.node.append(
            make("RotaryEmbedding", [x, cos, sin], ["again" if i == 0 else "out"])
        )
    with pytest.raises(
        ValueError, match=r"give a rope for each source .*'first\.cos' .*'second\.cos'"
    ):
        rotary.onnx.replace(before, rope(), length=64)
    each = {"first.cos": rope(), "second.cos": rope(theta=500.0)}
    after, count = rotary.onnx.replace(before, each, length=64)
    assert count == 2 and len(after.graph.initializer) == 4


def test_constant_caches_are_compared():
    after, count = rotary.onnx.replace(with_constant_caches(), rope(), length=4096)
    assert count == 1 and after.graph.initializer[0].dims[0] == 4096
    few = with_constant_caches(rows=8)  # fewer than are compared otherwise
    assert rotary.onnx.replace(few, rope(), length=64)[1] == 1
    for before in (with_constant_caches(theta=500.0), with_constant_caches(theta=500.0, rows=8)):
        with pytest.raises(ValueError, match="cos and sin of 'cos' differ from the rope's at"):
            rotary.onnx.replace(before, rope(), length=4096)


def test_constant_caches_in_files_that_were_not_loaded(tmp_path):
    onnx.save(
        with_constant_caches(theta=500.0), tmp_path / "model.onnx",
        save_as_external_data=True, size_threshold=0,
    )  # fmt: skip
    before = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    assert rotary.onnx.replace(before, rope(), length=64)[1] == 1
    with pytest.raises(ValueError, match="differ from the rope's"):
        rotary.onnx.replace(onnx.load(tmp_path / "model.onnx"), rope(), length=64)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_other_values_are_refused(kind):
    """Also values of other types, and a factor of cos and sin."""
    before = exported(kind=kind)
    assert rotary.onnx.replace(before, rope(), exact=True)[1] == 1
    for other in (rope(theta=11000.0), rope(scaling=rotary.Linear(factor=2.0)), rope(gain=1.01)):
        with pytest.raises(ValueError, match="differ from the rope's at position"):
            rotary.onnx.replace(before, other, exact=True)


def test_both_regimes_of_longrope():
    """The largest position of a call chooses, as in transformers."""
    long = read_rope(LONGROPE)
    before = exported()  # traced with few tokens: the short regime alone
    after, count = rotary.onnx.replace(before, long, length=256)
    assert count == 1 and after.graph.initializer[0].dims[0] == 512
    q = np.random.default_rng(3).standard_normal((1, 2, 2, HEAD)).astype(np.float32)
    for last, context in ((63, 64), (64, 256), (255, 256)):
        ids = np.array([[3, last]])
        wanted = exactly(long.make_rope(context), q, ids)
        assert np.abs(run(after, q=q, position_ids=ids)[0] - wanted).max() < 1e-6
    for context in (64, 256):
        fixed, _ = rotary.onnx.replace(before, long, length=256, context=context)
        assert fixed.graph.initializer[0].dims[0] == 256
        wanted = exactly(long.make_rope(context), q, ids)
        assert np.abs(run(fixed, q=q, position_ids=ids)[0] - wanted).max() < 1e-6
    short, _ = rotary.onnx.replace(before, long, length=64)
    assert [node.op_type for node in short.graph.node] == ["RotaryEmbedding"]


def test_positions_that_the_graph_computes():
    """The regime is chosen behind their node; cos and sin are compared as others are."""
    before = exported()
    before.graph.input[1].name = "first"
    before.graph.node.insert(0, helper.make_node("Abs", ["first"], ["position_ids"]))
    after, _ = rotary.onnx.replace(before, read_rope(LONGROPE), length=256)
    q, ids = np.ones((1, 2, 1, HEAD), np.float32), np.array([[200]])
    wanted = exactly(read_rope(LONGROPE).make_rope(256), q, ids)
    assert np.abs(run(after, q=q, first=-ids)[0] - wanted).max() < 1e-6
    with pytest.raises(ValueError, match="differ from the rope's"):
        rotary.onnx.replace(before, rope(theta=500.0), length=256)


def test_dynamic_ntk_needs_a_context():
    dynamic, before = read_rope(DYNAMIC), exported()
    with pytest.raises(ValueError, match=r"^\[replace\] DynamicNtk has other angles for every"):
        rotary.onnx.replace(before, dynamic, length=1024)
    after, _ = rotary.onnx.replace(before, dynamic, length=1024, context=1024)
    q, ids = np.ones((1, 2, 2, HEAD), np.float32), np.array([[9, 1023]])
    wanted = exactly(dynamic.make_rope(1024), q, ids)
    assert np.abs(run(after, q=q, position_ids=ids)[0] - wanted).max() < 1e-6
    # The operator follows the largest position of a call, or has the context that is given.
    by_call, _ = rotary.onnx.replace(before, dynamic, exact=True)
    fixed, _ = rotary.onnx.replace(before, dynamic, exact=True, context=4096)
    options = onnxruntime.SessionOptions()
    rotary.onnx.register(options)
    for model, context in ((by_call, 1024), (fixed, 4096)):
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        found = session.run(None, {"q": q, "position_ids": ids})[0][0]
        assert np.abs(found - exactly(dynamic.make_rope(context), q, ids)).max() < 1e-6
    with pytest.raises(ValueError, match="frequencies of one context already"):
        rotary.onnx.replace(before, rope(), length=64, context=64)
