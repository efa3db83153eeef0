# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.onnx.export: onnx's reference evaluator and onnxruntime rotate by it as rotary does."""

import json
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import rotary

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "models"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
}


def of(model_type, **changes):
    return {**LLAMA, "model_type": model_type, **changes}


def longrope(pairs=32):
    return of(
        "phi3",
        original_max_position_embeddings=64,
        rope_scaling={
            "type": "longrope",
            "short_factor": [1.0 + i / 100 for i in range(pairs)],
            "long_factor": [2.0 + i for i in range(pairs)],
        },
    )


def latent(model_type, **changes):
    """DeepSeek: the rotary slice alone; V3 reads interleaved and writes half."""
    return of(model_type, qk_rope_head_dim=32, qk_nope_head_dim=64, kv_lora_rank=8, **changes)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
CONFIGS = {
    "half": LLAMA,
    "interleaved": of("cohere"),
    "partial, half": of("phi", partial_rotary_factor=0.25),
    "partial, interleaved": of("glm", head_dim=64, partial_rotary_factor=0.5),
    "yarn, with its scale": of("llama", rope_scaling=YARN),
    "writes the other pairing": latent("deepseek_v3", rope_interleave=True),
    "interleaved slice": latent("deepseek_v2"),
    "trailing slice": of("deepseek_v4", head_dim=64, partial_rotary_factor=0.5),
    "longrope": longrope(),
}
# Of float32: rounding of cos, sin, two products and a sum. Others add that of the result.
TOLERANCE = {"float32": 4 * 2.0**-24, "float16": 4 * 2.0**-11, "bfloat16": 4 * 2.0**-8}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def data(rope, ids, dtype="float32"):
    """q of four heads and k of two for each row of position ids, [batch, heads, tokens, head]."""
    make = np.random.default_rng(3).standard_normal
    shape = (ids.shape[0], 4, ids.shape[1], rope.layout.head_dim)
    return [make(s).astype(DTYPES[dtype]) for s in (shape, (shape[0], 2, *shape[2:]))]


def expected(rope, x, ids):
    """Rotated by rotary, in float64."""
    rows = [
        rope.rotate(np.ascontiguousarray(row.swapaxes(0, 1)), positions=np.asarray(at))
        for row, at in zip(x.astype(np.float64), ids, strict=True)
    ]
    return np.stack(rows).swapaxes(1, 2)


def run_reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def run_onnxruntime(model, feeds):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


RUNNERS = {"onnx": run_reference, "onnxruntime": run_onnxruntime}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("case", CONFIGS)
def test_rotates_as_rotary(case, runner):
    config = CONFIGS[case]
    model = rotary.onnx.export(config)
    # Two rows of a batch: near 0, and up to the last position; LongRoPE's second regime.
    ids = np.array([[0, 1, 2, 7], [500, 3, 511, 130]])
    rope = rotary.Rope.from_pretrained(config, context=int(ids.max()) + 1)
    q, k = data(rope, ids)
    found = RUNNERS[runner](model, {"q": q, "k": k, "position_ids": ids})
    for x, y in zip((q, k), found, strict=True):
        wanted = expected(rope, x, ids)
        assert y.shape == x.shape and y.dtype == np.float32
        assert np.abs(y - wanted).max() <= TOLERANCE["float32"] * np.abs(wanted).max()
    assert {node.op_type for node in model.graph.node} >= {"RotaryEmbedding"}


@pytest.mark.parametrize("runner", RUNNERS)
def test_longrope_chooses_the_regime_by_the_largest_position(runner):
    config = longrope()
    model = rotary.onnx.export(config)
    for last, context in ((63, 64), (64, 65)):
        ids = np.array([[0, 5, last]])
        rope = rotary.Rope.from_pretrained(config, context=context)
        q, k = data(rope, ids)
        found = RUNNERS[runner](model, {"q": q, "k": k, "position_ids": ids})
        wanted = expected(rope, q, ids)
        assert np.abs(found[0] - wanted).max() <= TOLERANCE["float32"] * np.abs(wanted).max()
    # One regime, if a context is given.
    short = rotary.onnx.export(config, context=64)
    assert short.graph.initializer[0].dims[0] == 512
    assert model.graph.initializer[0].dims[0] == 1024


@pytest.mark.parametrize(
    ("dtype", "runner"),
    [("float16", "onnx"), ("bfloat16", "onnx"), ("float16", "onnxruntime")],
)
def test_types(dtype, runner):
    model = rotary.onnx.export(LLAMA, dtype=dtype)
    rope = rotary.Rope.from_pretrained(LLAMA)
    ids = np.array([[0, 100, 511]])
    q, k = data(rope, ids, dtype)
    found = RUNNERS[runner](model, {"q": q, "k": k, "position_ids": ids})[0]
    wanted = expected(rope, q, ids)
    assert found.dtype == DTYPES[dtype]
    assert (
        np.abs(found.astype(np.float64) - wanted).max() <= TOLERANCE[dtype] * np.abs(wanted).max()
    )


def test_onnxruntime_has_no_bfloat16_on_the_cpu():
    """A limit of onnxruntime 1.31.1 that docs/ecosystem.md names: if this fails, it is gone."""
    with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
        run_onnxruntime(rotary.onnx.export(LLAMA, dtype="bfloat16"), {})


def test_caches_are_exact():
    """Rounded once from float64, where angles in float32 are off by far more."""
    config = of("llama", max_position_embeddings=131072, rope_theta=500000.0)
    model = rotary.onnx.export(config)
    cos = onnx.numpy_helper.to_array(model.graph.initializer[0])
    rope = rotary.Rope.from_pretrained(config)
    wanted = rope.cos_sin(0, tokens=131072, dtype="float64")[0].astype(np.float32)
    assert cos.shape == (131072, 32) and np.abs(cos - wanted).max() <= 2.0**-24
    frequencies = rope.frequencies.values[:, 0].astype(np.float32)
    usual = np.cos(np.arange(131072, dtype=np.float32)[:, None] * frequencies)
    assert np.abs(usual - wanted).max() > 1e-3


@pytest.mark.parametrize("runner", RUNNERS)
def test_tokens_by_hidden(runner):
    config = of("phi", partial_rotary_factor=0.5)
    model = rotary.onnx.export(config, num_heads=(4, 2))
    rope = rotary.Rope.from_pretrained(config)
    ids = np.array([[4, 5, 6], [0, 1, 2]])
    q, k = data(rope, ids)
    flat = [x.swapaxes(1, 2).reshape(2, 3, -1) for x in (q, k)]
    found = RUNNERS[runner](model, {"q": flat[0], "k": flat[1], "position_ids": ids})
    for x, y in zip((q, k), found, strict=True):
        wanted = expected(rope, x, ids).swapaxes(1, 2).reshape(2, 3, -1)
        assert np.abs(y - wanted).max() <= TOLERANCE["float32"] * np.abs(wanted).max()


MROPE = json.loads((EXAMPLES / "qwen3-vl-text.json").read_text())
REJECTED = {
    "opset": (LLAMA, {"opset": 22}, "opset must be 23 to 28: RotaryEmbedding is of opset 23"),
    "newer opset": (LLAMA, {"opset": 99}, "got 99"),
    "float64": (LLAMA, {"dtype": "float64"}, "takes float32, float16 and bfloat16, got float64"),
    "axes": (MROPE, {"length": 16}, "one position for each token, got a rope of 3 axes"),
    "dynamic": (
        of("llama", rope_scaling={"rope_type": "dynamic", "factor": 2.0}),
        {},
        "DynamicNtk has other angles for every context: give one",
    ),
    "2 GiB": (LLAMA, {"length": 1 << 28}, "is the most of a file"),
    "no length": (rotary.Rope(head_dim=64, theta=1e4, pairing="half"), {}, "at least 1, got 0"),
    "hidden with a slice": (CONFIGS["trailing slice"], {"num_heads": (4, 2)}, "without num_heads"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejects(case, tmp_path):
    model, options, message = REJECTED[case]
    with pytest.raises(ValueError, match=r"^\[export\]") as error:
        rotary.onnx.export(model, tmp_path / "rope.onnx", **options)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "rotary", "export", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_command(tmp_path):
    config = EXAMPLES / "llama-3.1-8b.json"
    out = tmp_path / "rope.onnx"
    done = command("onnx", config, "-o", out, "--length", 1000, "--dtype", "float16")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}: 1000 positions of 64 pairs, float16, opset 23\n"
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert (
        model.SerializeToString()
        == rotary.onnx.export(config, length=1000, dtype="float16").SerializeToString()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["rope.onnx"]
    for arguments, code, message in [
        (("onnx", config), 2, "-o/--out"),
        (("tflite", config, "-o", out), 2, "tflite"),
        (("onnx", tmp_path / "none.json", "-o", out), 1, "none.json"),
        (("onnx", config, "-o", out, "--opset", 18), 1, "opset must be 23"),
        (("onnx", config, "-o", tmp_path / "no" / "rope.onnx"), 1, "No such file"),
    ]:
        done = command(*arguments)
        assert done.returncode == code and done.stdout == "", done.stdout
        assert done.stderr.startswith("rotary: ") and done.stderr.count("\n") == 1, done.stderr
        assert message in done.stderr
