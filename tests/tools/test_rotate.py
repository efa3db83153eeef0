# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary rotate against the definition in float64."""

import json
import struct

import numpy as np
import pytest
from command import EXAMPLES, fail, inspect, llama, phi3, run, succeed, write_config
from oracle import rotate, values

NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 384,
    "num_attention_heads": 4,
    "rotary_pct": 0.25,
    "rotary_emb_base": 10000,
    "max_position_embeddings": 2048,
}
COHERE = {
    "model_type": "cohere",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
}
DEEPSEEK_V4 = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
QWEN2_VL_VISION = {
    "model_type": "qwen2_vl_vision",
    "embed_dim": 320,
    "num_heads": 4,
    "depth": 2,
    "hidden_size": 320,
}


@pytest.fixture(name="run_rotate")
def make_run_rotate(tmp_path):
    """run_rotate(config, x, positions, options...) -> (result, the rope used)."""

    def run_rotate(config, x, positions, *options, rope=0):
        model = write_config(tmp_path, config)
        if not isinstance(positions, str):
            np.save(tmp_path / "p.npy", positions)
            positions = tmp_path / "p.npy"
        np.save(tmp_path / "in.npy", x)
        used = inspect(model)["ropes"][rope]
        succeed(
            "rotate",
            model,
            tmp_path / "in.npy",
            tmp_path / "out.npy",
            "--positions",
            positions,
            "--rope",
            used["name"],
            *options,
        )
        out = np.load(tmp_path / "out.npy")
        assert out.dtype == x.dtype and out.shape == x.shape
        return out, used

    return run_rotate


# ---- Pairings, slices, axes --------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, pairing, offset",
    [
        (llama(), "half", 0),
        (COHERE, "interleaved", 0),
        (NEOX, "half", 0),
        (DEEPSEEK_V4, "interleaved", 448),
    ],
    ids=["half", "interleaved", "partial", "trailing"],
)
def test_layouts(run_rotate, config, pairing, offset):
    head_dim = 96 if config is NEOX else 512 if config is DEEPSEEK_V4 else 64
    x = values(40, 3, head_dim)
    out, rope = run_rotate(config, x, "0:40")
    assert (rope["pairing"], rope["rotary_offset"]) == (pairing, offset)
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(40)), atol=1e-6)
    np.testing.assert_array_equal(
        np.delete(out, range(offset, offset + rope["rotary_dim"]), -1),
        np.delete(x, range(offset, offset + rope["rotary_dim"]), -1),
    )


def test_reads_interleaved_and_writes_half(run_rotate):
    config = json.loads((EXAMPLES / "deepseek-v3.json").read_text())
    x = values(12, 2, 64)
    out, rope = run_rotate(config, x, "100:112")
    assert (rope["pairing"], rope["output_pairing"]) == ("interleaved", "half")
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(100, 112)), atol=1e-6)
    back, _ = run_rotate(config, out, "100:112", "--inverse")
    np.testing.assert_allclose(back, x, atol=1e-6)


def test_three_axes(run_rotate):
    config = json.loads((EXAMPLES / "qwen3-vl-text.json").read_text())
    x = values(9, 2, 128)
    positions = np.random.default_rng(1).integers(0, 5000, (3, 9))
    out, rope = run_rotate(config, x, positions)
    np.testing.assert_allclose(out, rotate(x, rope, positions), atol=1e-6)


def test_text_positions_are_the_same_on_all_axes(tmp_path):
    x = values(9, 2, 128)
    np.save(tmp_path / "in.npy", x)
    model = EXAMPLES / "qwen3-vl-text.json"
    done = run("rotate", model, tmp_path / "in.npy", tmp_path / "out.npy", "--positions", "5:")
    assert done.returncode == 0 and "same position on the axes t, h, w" in done.stderr
    rope = inspect(model)["ropes"][0]
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), rotate(x, rope, np.tile(np.arange(5, 14), (3, 1))), atol=1e-6
    )


def test_image_positions_need_all_axes(run_rotate, tmp_path):
    x = values(6, 2, 80)
    positions = np.array([[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    out, rope = run_rotate(QWEN2_VL_VISION, x, positions)
    assert rope["axes"] == ["h", "w"]
    np.testing.assert_allclose(out, rotate(x, rope, positions), atol=1e-6)
    error = fail(
        1,
        "rotate",
        tmp_path / "config.json",
        tmp_path / "in.npy",
        tmp_path / "new.npy",
        "--positions",
        "0:6",
    )
    assert "h, w" in error and not (tmp_path / "new.npy").exists()


def test_rotary_slice_alone(tmp_path):
    model = write_config(tmp_path, NEOX)
    x = values(10, 2, 24)
    np.save(tmp_path / "in.npy", x)
    done = run("rotate", model, tmp_path / "in.npy", tmp_path / "out.npy", "--positions", "0:10")
    assert done.returncode == 0 and "rotary slice" in done.stderr
    rope = inspect(model)["ropes"][0]
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), rotate(x, rope, np.arange(10)), atol=1e-6
    )


def test_batch_and_single_head(run_rotate):
    x = values(3, 10, 2, 64)
    out, rope = run_rotate(llama(), x, "7:17")
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(7, 17)), atol=1e-6)
    x = values(10, 64)
    out, rope = run_rotate(llama(), x, "7:17")
    np.testing.assert_allclose(out, rotate(x[:, None], rope, np.arange(7, 17))[:, 0], atol=1e-6)


def test_many_steps_are_one_rotation(run_rotate):
    x = values(70000, 1, 64)
    out, rope = run_rotate(llama(), x, "-5:69995")
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(-5, 69995)), atol=2e-6)


def test_empty_tensor(run_rotate):
    assert run_rotate(llama(), values(0, 2, 64), "0:0")[0].size == 0


# ---- Types and precision -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype, limit", [(np.float64, 1e-10), (np.float32, 1e-6), (np.float16, 2e-3)]
)
def test_types(run_rotate, dtype, limit):
    x = values(20, 2, 64, dtype=dtype)
    out, rope = run_rotate(llama(), x, "100000:100020")
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(100000, 100020)), atol=limit)


def write_bfloat16(path, x):
    """safetensors by hand: NumPy has no bfloat16."""
    bits = (np.asarray(x, np.float32).view(np.uint32) >> 16).astype("<u2")
    header = json.dumps(
        {"q": {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [0, bits.nbytes]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bits.tobytes())


def read_bfloat16(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    ((name, entry),) = (
        (k, v) for k, v in json.loads(data[8 : 8 + size]).items() if k != "__metadata__"
    )
    assert entry["dtype"] == "BF16"
    bits = np.frombuffer(data[8 + size :], "<u2").astype(np.uint32) << 16
    return name, bits.view(np.float32).reshape(entry["shape"])


def test_bfloat16(tmp_path):
    model = write_config(tmp_path, llama())
    write_bfloat16(tmp_path / "in.safetensors", values(20, 2, 64))
    _, x = read_bfloat16(tmp_path / "in.safetensors")
    succeed(
        "rotate",
        model,
        tmp_path / "in.safetensors",
        tmp_path / "out.safetensors",
        "--positions",
        "4000:4020",
    )
    name, out = read_bfloat16(tmp_path / "out.safetensors")
    assert name == "q"
    wanted = rotate(x, inspect(model)["ropes"][0], np.arange(4000, 4020))
    np.testing.assert_allclose(out, wanted, atol=2**-8)  # one rounding of values below 2
    error = fail(
        1, "rotate", model, tmp_path / "in.safetensors", tmp_path / "out.npy", "--positions", "0:20"
    )
    assert "bfloat16" in error and not (tmp_path / "out.npy").exists()


def test_reference_precision_is_that_of_float32(run_rotate):
    x = values(4, 1, 64)
    start = 1_000_000
    exact, rope = run_rotate(llama(), x, f"{start}:{start + 4}")
    reference, _ = run_rotate(llama(), x, f"{start}:{start + 4}", "--precision", "reference")
    np.testing.assert_allclose(exact, rotate(x, rope, np.arange(start, start + 4)), atol=1e-6)
    angles = (
        np.arange(start, start + 4, dtype=np.float32)[:, None]
        * np.array(rope["frequencies"], np.float32)[:, 0]
    ).astype(np.float64)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    wanted = np.concatenate(
        [x[..., :32] * cos - x[..., 32:] * sin, x[..., 32:] * cos + x[..., :32] * sin], -1
    )
    np.testing.assert_allclose(reference, wanted, atol=1e-6)
    assert np.abs(reference - exact).max() > 1e-3


def test_inverse_undoes_the_scale(run_rotate):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    x = values(16, 2, 64)
    out, rope = run_rotate(llama(rope_scaling=yarn), x, "0:16")
    assert rope["scale"] > 1.1
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(16)), atol=1e-6)
    np.testing.assert_allclose(
        run_rotate(llama(rope_scaling=yarn), out, "0:16", "--inverse")[0], x, atol=1e-6
    )


# ---- Positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, first",
    [
        ("0:8", 0),
        ("17:", 17),
        ("17", 17),
        ("-5:3", -5),
        ("-3", -3),
        ("123456789:123456797", 123456789),
    ],
)
def test_ranges(run_rotate, text, first):
    x = values(8, 2, 64)
    out, rope = run_rotate(llama(), x, text)
    wanted = rotate(x, rope, np.arange(first, first + 8))
    np.testing.assert_allclose(out, wanted, atol=1e-6 if abs(first) < 1e6 else 1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_position_files(run_rotate, dtype):
    x = values(5, 2, 64)
    positions = np.array([3, 0, 3, 1000, 7], dtype)
    if np.issubdtype(dtype, np.floating):
        positions += dtype(0.25)
    out, rope = run_rotate(llama(), x, positions)
    np.testing.assert_allclose(out, rotate(x, rope, positions), atol=1e-6)
    np.testing.assert_array_equal(run_rotate(llama(), x, positions[None])[0], out)


def test_length_chooses_the_regime(run_rotate, tmp_path):
    x = values(4, 1, 96)
    short, rope = run_rotate(phi3(), x, "4092:4096")
    np.testing.assert_allclose(short, rotate(x, rope, np.arange(4092, 4096)), atol=1e-6)
    beyond = inspect(tmp_path / "config.json", "--context", 4097)["ropes"][0]
    across, _ = run_rotate(phi3(), x, "4093:4097")
    np.testing.assert_allclose(across, rotate(x, beyond, np.arange(4093, 4097)), atol=1e-6)
    forced, _ = run_rotate(phi3(), x, "0:4", "--context", "4097")
    np.testing.assert_allclose(forced, rotate(x, beyond, np.arange(4)), atol=1e-6)
    from_file, _ = run_rotate(phi3(), x, np.array([0, 1, 2, 4096]))
    np.testing.assert_allclose(from_file, rotate(x, beyond, [0, 1, 2, 4096]), atol=1e-6)


def test_dynamic_ntk_follows_the_largest_position(run_rotate, tmp_path):
    config = llama(rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    x = values(4, 1, 64)
    out, _ = run_rotate(config, x, np.array([0, 1, 2, 9999]))
    rope = inspect(tmp_path / "config.json", "--context", 10000)["ropes"][0]
    np.testing.assert_allclose(out, rotate(x, rope, [0, 1, 2, 9999]), atol=1e-6)


def test_fortran_order(run_rotate):
    x = np.asfortranarray(values(6, 2, 64))
    out, rope = run_rotate(llama(), x, "0:6")
    np.testing.assert_allclose(out, rotate(x, rope, np.arange(6)), atol=1e-6)
