# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The custom operator rotary.Rotate in onnxruntime: the bits of rotary's own rotate."""

import ctypes
import json

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from test_export import CONFIGS, DTYPES, EXAMPLES, LLAMA, command, longrope, of
from test_replace import HEAD, exported
from test_replace import rope as small_rope

import rotary
from rotary.onnx import operator

DTYPES = {**DTYPES, "float64": np.float64}
KINDS = operator.TYPES
XPOS = rotary.Rope(head_dim=64, theta=1e4, pairing="interleaved", scaling=rotary.Xpos(512.0))


def session(model, **settings):
    options = onnxruntime.SessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    rotary.onnx.register(options)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def with_casts(model, dtype):
    """Inputs and outputs in float64, which holds every bfloat16: NumPy has no such type."""
    graph = model.graph
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == KINDS[dtype]:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in list(graph.node):
        cast = helper.make_node("Cast", [node.input[0]], [f"{node.input[0]}.x"], to=KINDS[dtype])
        back = helper.make_node("Cast", [f"{node.output[0]}.y"], list(node.output), to=11)
        node.input[0], node.output[0] = cast.output[0], back.input[0]
        graph.node.insert(list(graph.node).index(node), cast)
        graph.node.append(back)
    return model


def run(model, feeds, dtype="float32", **settings):
    if dtype == "bfloat16":
        feeds = {n: x.astype(np.float64) if n != "position_ids" else x for n, x in feeds.items()}
        model = with_casts(model, dtype)
    outs = session(model, **settings).run(None, feeds)
    return [y.astype(DTYPES[dtype]) for y in outs]


def data(head_dim, ids, dtype="float32", heads=(4, 2)):
    make = np.random.default_rng(3).standard_normal
    batch, tokens = ids.shape[-2:]
    return [make((batch, n, tokens, head_dim)).astype(DTYPES[dtype]) for n in heads]


def rotated(rope, x, ids):
    """By rotary: [batch, heads, tokens, head_dim], ids [batch, tokens] or [axes, batch, tokens]."""
    ids = ids.reshape(-1, *ids.shape[-2:])
    rows = [
        rope.rotate(np.ascontiguousarray(x[b].swapaxes(0, 1)), positions=ids[:, b].squeeze(0)
                    if len(ids) == 1 else ids[:, b])
        for b in range(len(x))
    ]  # fmt: skip
    return np.stack(rows).swapaxes(1, 2)


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == np.ascontiguousarray(b).tobytes()


IDS = np.array([[0, 1, 2, 7], [500, 3, 2**31 + 5, -130]])
MODELS = {
    **CONFIGS,
    "mrope": json.loads((EXAMPLES / "qwen3-vl-text.json").read_text()),
    "backward": of("llama", rope_parameters={"rope_type": "default", "direction": "backward"}),
    "resonance": of("llama", rope_parameters={"rope_type": "resonance"}),
    "llama3": json.loads((EXAMPLES / "llama-3.1-8b.json").read_text()),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", MODELS)
def test_the_bits_of_rotate(case, dtype):
    rope = rotary.Rope.from_pretrained(MODELS[case], context=int(IDS.max()) + 1)
    axes = rope.frequencies.axes
    ids = IDS if axes == 1 else np.stack([IDS + axis for axis in range(axes)])
    model = rotary.onnx.export(MODELS[case], dtype=dtype, exact=True)
    q, k = data(rope.layout.head_dim, ids, dtype)
    found = run(model, {"q": q, "k": k, "position_ids": ids}, dtype)
    for x, y in zip((q, k), found, strict=True):
        assert same_bits(y, rotated(rope, x, ids))
    assert len(model.graph.initializer) == 0


@pytest.mark.parametrize(
    "rope",
    [
        XPOS,
        rotary.Rope(head_dim=32, theta=1e4, pairing="half", scaling=rotary.Yarn(4.0, 64)),
        rotary.Rope(head_dim=32, theta=1e4, pairing="half", precision="reference"),
        rotary.Rope(head_dim=32, rotary_dim=16, rotary_offset=8, theta=1e4, pairing="half"),
    ],
    ids=["xpos", "yarn", "reference", "slice"],
)
def test_a_rope_by_its_frequencies(rope):
    ids = np.array([[0, 5, 90]])
    q, k = data(rope.layout.head_dim, ids)
    found = run(rotary.onnx.export(rope, exact=True), {"q": q, "k": k, "position_ids": ids})
    assert same_bits(found[0], rotated(rope, q, ids))
    assert same_bits(found[1], rotated(rope.with_inverse_growth(), k, ids))  # alike but for xPos


def dynamic():
    return of("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0})


@pytest.mark.parametrize("config", [longrope(), dynamic()], ids=["longrope", "dynamic"])
def test_the_largest_position_chooses_the_regime(config):
    """In one session, there and back; the caches of RotaryEmbedding cannot follow dynamic NTK."""
    ready = session(rotary.onnx.export(config, exact=True))
    fixed = session(rotary.onnx.export(config, exact=True, context=5000))
    for last in (40, 63, 64, 511, 512, 100_000, 7):
        ids = np.array([[0, 5, last]])
        q, k = data(64, ids)
        feeds = {"q": q, "k": k, "position_ids": ids}
        for chosen, context in ((ready, last + 1), (fixed, 5000)):
            rope = rotary.Rope.from_pretrained(config, context=context)
            assert same_bits(chosen.run(None, feeds)[0], rotated(rope, q, ids)), last


def test_tokens_by_hidden():
    config = CONFIGS["trailing slice"]
    rope = rotary.Rope.from_pretrained(config)
    model = rotary.onnx.export(config, num_heads=(4, 2), exact=True)
    q, k = data(64, IDS)
    flat = [x.swapaxes(1, 2).reshape(2, 4, -1) for x in (q, k)]
    found = run(model, {"q": flat[0], "k": flat[1], "position_ids": IDS})
    for x, y in zip((q, k), found, strict=True):
        assert same_bits(y, rotated(rope, x, IDS).swapaxes(1, 2).reshape(2, 4, -1))


def node_model(nodes, inputs, outputs, tensors=(), opset=23):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(tensors))
    opsets = [helper.make_opsetid("", opset), operator.opset_id()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def one_node(text, shape, ids, kind=TensorProto.FLOAT, **attributes):
    value = helper.make_tensor_value_info
    node = helper.make_node("Rotate", ["x", "ids"], ["y"], domain="rotary",
                            **({} if text is None else {"rope": text}), **attributes)  # fmt: skip
    inputs = [value("x", kind, shape), value("ids", TensorProto.INT64, ids)]
    return node_model([node], inputs, [value("y", kind, shape)])


TEXT = operator.rope_text(small_rope())


@pytest.mark.parametrize("ids", [np.array([3, 9]), np.array([[3, 9]])], ids=["1-D", "one row"])
def test_positions_for_all_rows(ids):
    x = data(HEAD, np.zeros((3, 2)))[0]
    model = one_node(TEXT, [3, 4, 2, HEAD], list(ids.shape))
    found = session(model).run(None, {"x": x, "ids": ids})[0]
    assert same_bits(found, rotated(small_rope(), x, np.broadcast_to(ids, (3, 2))))


@pytest.mark.parametrize("known", [True, False], ids=["ranks", "nothing"])
def test_shapes_that_the_graph_does_not_know(known, capfd):
    """Dims without a name or a number, or no shape at all, as exporters leave them."""

    def value(name, kind, rank):
        return helper.make_tensor_value_info(name, kind, [None] * rank if known else None)

    nodes = [
        helper.make_node("Reshape", ["flat", "shape"], ["x"]),
        operator.rotate_node("x", "ids", "y", TEXT),
        helper.make_node("Neg", ["y"], ["out"]),
    ]
    inputs = [
        value("flat", TensorProto.FLOAT, 1),
        value("shape", TensorProto.INT64, 1),
        value("ids", TensorProto.INT64, 2),
    ]
    model = node_model(nodes, inputs, [value("out", TensorProto.FLOAT, 4)])
    x = data(HEAD, IDS)[0]
    feeds = {"flat": x.reshape(-1), "shape": np.array(x.shape), "ids": IDS}
    found = session(model).run(None, feeds)[0]
    assert same_bits(found, -rotated(small_rope(), x, IDS))
    assert "Expected shape" not in capfd.readouterr().err  # a warning of onnxruntime


def test_no_tokens():
    ready = session(one_node(TEXT, [1, 4, "tokens", HEAD], [1, "tokens"]))
    x, ids = np.zeros((1, 4, 0, HEAD), np.float32), np.zeros((1, 0), np.int64)
    assert ready.run(None, {"x": x, "ids": ids})[0].shape == x.shape


def test_in_place_only_where_nothing_else_reads_x():
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Neg", ["q"], ["x"]),
        operator.rotate_node("x", "ids", "y", TEXT),
        operator.rotate_node("y", "ids", "z", TEXT),
        helper.make_node("Neg", ["z"], ["out"]),
        helper.make_node("Neg", ["x"], ["again"]),
    ]
    shape = [2, 4, 4, HEAD]
    inputs = [value("q", TensorProto.FLOAT, shape), value("ids", TensorProto.INT64, [2, 4])]
    outputs = [value(name, TensorProto.FLOAT, shape) for name in ("out", "again")]
    q = data(HEAD, IDS)[0]
    found = session(node_model(nodes, inputs, outputs)).run(None, {"q": q, "ids": IDS})
    once = rotated(small_rope(), -q, IDS)
    assert same_bits(found[0], -rotated(small_rope(), once, IDS))
    assert same_bits(found[1], q)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_of_the_session(threads):
    ids = np.arange(2048).reshape(1, -1) + 10**6
    rope = rotary.Rope.from_pretrained(LLAMA)
    q, k = data(64, ids, heads=(8, 8))
    model = rotary.onnx.export(LLAMA, exact=True)
    feeds = {"q": q, "k": k, "position_ids": ids}
    assert same_bits(run(model, feeds, intra_op_num_threads=threads)[0], rotated(rope, q, ids))


@pytest.mark.parametrize("opset", [10, 18, 23])
def test_replaces_rotations_of_older_opsets(opset):
    before = exported(opset=max(opset, 13))
    after, count = rotary.onnx.replace(before, small_rope(), exact=True)
    assert count == 1 and [n.op_type for n in after.graph.node] == ["Rotate"]
    assert len(after.graph.initializer) == 0
    far = np.array([[10**9, 50_001, 7], [1, 2, 3]])
    q = data(HEAD, far, heads=(2,))[0]
    found = session(after).run(None, {"q": q, "position_ids": far})[0]
    assert same_bits(found, rotated(small_rope(), q, far))


def test_replaces_the_operator_of_opset_23():
    """Partial and interleaved; a ModelRope keeps its recipe, so that regimes work."""
    config = {**longrope(16), "model_type": "glm", "head_dim": 64, "partial_rotary_factor": 0.5}
    model = rotary.Model.from_config(config).rope()
    assert model.layout.pairing == "interleaved" and model.recipe.rotary_dim == 32
    value = helper.make_tensor_value_info
    node = helper.make_node("RotaryEmbedding", ["q", "cos", "sin"], ["out"], interleaved=1,
                            rotary_embedding_dim=32, num_heads=4)  # fmt: skip
    inputs = [
        value("q", TensorProto.FLOAT, ["batch", "tokens", 256]),
        value("position_ids", TensorProto.INT64, ["batch", "tokens"]),
        *(value(n, TensorProto.FLOAT, ["batch", "tokens", 16]) for n in ("cos", "sin")),
    ]
    outputs = [value("out", TensorProto.FLOAT, ["batch", "tokens", 256])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    after, count = rotary.onnx.replace(before, model, exact=True)
    assert count == 1
    for last in (9, 400):
        ids = np.array([[0, 1, last]])
        q = data(64, ids)[0]
        feeds = {"q": q.swapaxes(1, 2).reshape(1, 3, -1), "position_ids": ids}
        unused = {n: np.zeros((1, 3, 16), np.float32) for n in ("cos", "sin")}
        found = session(after).run(None, {**feeds, **unused})[0]
        wanted = rotated(model.make_rope(last + 1), q, ids)
        assert same_bits(found, wanted.swapaxes(1, 2).reshape(1, 3, -1))


WRONG_TEXTS = {
    "no attribute": (None, "the node needs the attribute rope"),
    "no JSON": ("rope", "attribute rope"),
    "a list": ("[]", "must be a JSON object, got array"),
    "nothing": ("{}", "needs a recipe or frequencies"),
    "odd rotary_dim": ('{"recipe": {"type": "default", "theta": 1e4, "rotary_dim": 7}, '
                       '"head_dim": 16, "pairing": "half"}', "rotary_dim must be even"),
    "unknown type": ('{"recipe": {"type": "yarm", "theta": 1e4, "rotary_dim": 8}, '
                     '"head_dim": 16, "pairing": "half"}', "unknown type"),
    "no pairing": ('{"frequencies": [1.0], "head_dim": 16}', "pairing"),
    "words": ('{"frequencies": ["x"], "head_dim": 16}', "must be a list of numbers"),
    "wide": ('{"frequencies": [1.0, 2.0], "head_dim": 2, "pairing": "half"}', "head_dim"),
    "precision": ('{"frequencies": [1.0], "head_dim": 16, "pairing": "half", '
                  '"precision": "low"}', "precision must be exact or reference"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_TEXTS)
def test_rejects_a_rope(case):
    text, message = WRONG_TEXTS[case]
    with pytest.raises(Exception, match=r"\[ONNXRuntimeError\]") as error:
        session(one_node(text, [1, 1, 1, 16], [1, 1]))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("shape", "ids", "message"),
    [
        ((1, 2, 3, 8), (1, 3), "X must be [batch, heads, tokens, 16] or [batch, tokens, "
                               "heads * 16], got [1, 2, 3, 8]"),
        ((2, 16), (1, 3), "got [2, 16]"),
        ((1, 2, 3, 16), (1, 4), "positions must be [1, 3], got [1, 4]"),
        ((3, 2, 3, 16), (2, 3), "positions must be [3, 3], got [2, 3]"),
        ((1, 2, 3, 16), (1, 1, 3), "got [1, 1, 3]"),
    ],
)  # fmt: skip
def test_rejects_shapes(shape, ids, message):
    ready = session(one_node(TEXT, [None] * len(shape), [None] * len(ids)))
    with pytest.raises(Exception, match="INVALID_ARGUMENT") as error:
        ready.run(None, {"x": np.zeros(shape, np.float32), "ids": np.zeros(ids, np.int64)})
    assert "[Rotate]" in str(error.value) and message in str(error.value)


def test_rejects_other_types():
    with pytest.raises(Exception, match="Type"):
        session(one_node(TEXT, [1, 1, 1, 16], [1, 1], TensorProto.INT32))


def test_rejects_an_old_onnxruntime():
    """A table of version 1 only: the message is what that version gets."""
    kept = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def create_status(code, message):
        kept.append((code, message))
        return 1

    table = (ctypes.c_void_p * 1)(ctypes.cast(create_status, ctypes.c_void_p))
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(
        lambda version: ctypes.addressof(table) if version == 1 else None
    )
    version = ctypes.create_string_buffer(b"1.10.0")
    get_version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(version))
    base = (ctypes.c_void_p * 2)(*(ctypes.cast(f, ctypes.c_void_p) for f in (get_api, get_version)))
    register = ctypes.CDLL(rotary.onnx.library()).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, ctypes.byref(base)) == 1
    assert kept == [(1, b"rotary needs onnxruntime 1.18 or newer, got 1.10.0")]


def test_rejects_what_cannot_be_exported(tmp_path):
    for options, message in [
        ({"opset": 9}, "opset must be 10 to"),
        ({"dtype": "int8"}, "Rotate takes float32, float16, bfloat16, float64, got int8"),
        ({"length": 5}, "no caches and no length, got 5"),
    ]:
        with pytest.raises(ValueError, match=r"^\[export\]") as error:
            rotary.onnx.export(LLAMA, tmp_path / "rope.onnx", exact=True, **options)
        assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="no length"):
        rotary.onnx.replace(exported(), small_rope(), length=5, exact=True)
    with pytest.raises(ValueError, match="xPos scales q and k apart"):
        xpos = rotary.Rope(head_dim=16, theta=1e4, pairing="half", scaling=rotary.Xpos(512.0))
        rotary.onnx.replace(exported(), xpos, exact=True)


def test_library_that_is_not_there(monkeypatch):
    monkeypatch.setenv("ROTARY_ONNX_LIBRARY", "/nowhere/librotary_onnx.so")
    with pytest.raises(ImportError, match="not there: /nowhere"):
        rotary.onnx.library()


def test_command(tmp_path):
    out = tmp_path / "rope.onnx"
    done = command("onnx", EXAMPLES / "qwen3-vl-text.json", "-o", out, "--exact")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{out}: exact angles by the operator rotary.Rotate, float32, opset 23\n"
    )
    assert onnx.load(out).graph.input[2].type.tensor_type.shape.dim[0].dim_value == 3
    done = command("onnx", EXAMPLES / "llama-3.1-8b.json", "-o", out, "--exact", "--length", 9)
    assert done.returncode == 1 and "no length" in done.stderr


def test_bfloat16_that_onnxruntime_itself_lacks():
    """test_export has the standard operator's refusal."""
    ids = np.array([[1, 2]])
    q, k = data(64, ids, "bfloat16")
    assert q.dtype == ml_dtypes.bfloat16
    model = rotary.onnx.export(LLAMA, dtype="bfloat16", exact=True)
    found = run(model, {"q": q, "k": k, "position_ids": ids}, "bfloat16")[0]
    assert same_bits(found, rotated(rotary.Rope.from_pretrained(LLAMA), q, ids))
