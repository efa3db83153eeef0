# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Tensor files: those of NumPy and safetensors are read by ours, and ours by theirs.

Run by `make test`; by hand, with numpy and safetensors installed:
    ROTARY_COMMAND=build/bin/rotary python -m pytest tests/interop
"""

import io
import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from interop import assert_rotated, base_frequencies, random_heads, refused, rotate, rotate_heads

HEAD_DIM = 16
THETA = 10000.0
X = random_heads(head_dim=HEAD_DIM)
POSITIONS = np.array([0, 1, -3, 4096, 131071])


@pytest.fixture(name="model")
def llama(tmp_path):
    """A Llama: the whole head is rotated, half pairing."""
    path = tmp_path / "config.json"
    config = {
        "model_type": "llama",
        "hidden_size": 3 * HEAD_DIM,
        "num_attention_heads": 3,
        "max_position_embeddings": 4096,
        "rope_theta": THETA,
    }
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(name="ids")
def position_file(tmp_path):
    np.save(tmp_path / "positions.npy", POSITIONS)
    return tmp_path / "positions.npy"


def expected(x=X, positions=POSITIONS):
    phases = np.asarray(positions, dtype=np.float64)[:, None] * base_frequencies(THETA, HEAD_DIM)
    return rotate_heads(x, phases, "half")


def save_npy(path, array, version=None):
    with open(path, "wb") as file:
        np.lib.format.write_array(file, array, version=version)


def to_bfloat16(array):
    """Bits, as uint16. The array must hold nothing that bfloat16 does not."""
    return (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bfloat16(data, shape):
    bits = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
    return bits.view(np.float32).reshape(shape)


def save_raw(path, dtype, array, **more):
    """A .safetensors file by hand: safetensors' NumPy side has no bfloat16."""
    entry = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [0, array.nbytes]}
    header = json.dumps({**more, "q": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + array.tobytes())


def load_raw(path):
    """The only tensor of a .safetensors file, as safetensors itself parses it."""
    ((_, tensor),) = safetensors.deserialize(path.read_bytes())
    return tensor


# ---- NumPy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=["v1", "v2", "v3"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("descr", ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
def test_reads_what_numpy_writes(tmp_path, model, ids, descr, order, version):
    save_npy(tmp_path / "in.npy", np.array(X, dtype=descr, order=order), version)
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", ids)
    out = np.load(tmp_path / "out.npy")
    assert out.dtype == np.dtype(descr).newbyteorder("<")
    assert out.flags.c_contiguous
    assert_rotated(out, expected(), out.dtype.name)


@pytest.mark.parametrize("shape", [(1, 1, 16), (5, 3, 16), (7, 13, 16), (100, 1, 16)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_writes_byte_for_byte_what_numpy_writes(tmp_path, model, dtype, shape):
    np.save(tmp_path / "in.npy", random_heads(*shape).astype(dtype))
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", f"0:{shape[0]}")
    by_numpy = io.BytesIO()
    np.save(by_numpy, np.load(tmp_path / "out.npy"))
    assert (tmp_path / "out.npy").read_bytes() == by_numpy.getvalue()


@pytest.mark.parametrize("descr", ["<i4", ">i4", "<i8", ">i8", "<f4", ">f4", "<f8", ">f8"])
def test_reads_positions_of_every_type(tmp_path, model, descr):
    np.save(tmp_path / "in.npy", X.astype(np.float32))
    np.save(tmp_path / "p.npy", POSITIONS.astype(descr))
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", tmp_path / "p.npy")
    assert_rotated(np.load(tmp_path / "out.npy"), expected(), "float32")


def test_reads_fractional_positions_and_one_axis_of_rank_two(tmp_path, model):
    np.save(tmp_path / "in.npy", X)
    for positions in [[0.5, 1.25, -2.75, 1e4, 0], [[0.5, 1.25, -2.75, 1e4, 0]]]:
        np.save(tmp_path / "p.npy", np.array(positions))
        rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", tmp_path / "p.npy")
        target = expected(positions=np.ravel(positions))
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), target, rtol=0, atol=1e-10)


def test_a_range_is_positions(tmp_path, model):
    np.save(tmp_path / "in.npy", X)
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", "4096:4101")
    target = expected(positions=np.arange(4096, 4101))
    assert_rotated(np.load(tmp_path / "out.npy"), target, "float64")


def test_inverse_undoes_the_rotation(tmp_path, model, ids):
    np.save(tmp_path / "in.npy", X)
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", ids)
    rotate(model, tmp_path / "out.npy", tmp_path / "back.npy", ids, "--inverse")
    assert_rotated(np.load(tmp_path / "back.npy"), X, "float64")


def test_reference_precision_forms_angles_in_float32(tmp_path, model, ids):
    np.save(tmp_path / "in.npy", X.astype(np.float32))
    rotate(model, tmp_path / "in.npy", tmp_path / "out.npy", ids, "--precision", "reference")
    frequencies = base_frequencies(THETA, HEAD_DIM).astype(np.float32)
    phases = POSITIONS.astype(np.float32)[:, None] * frequencies
    # A frequency may be off by one float32 step: 6e-8 of the angle.
    difference = np.load(tmp_path / "out.npy") - rotate_heads(X, phases.astype(np.float64), "half")
    assert np.all(np.abs(difference) < 4e-6 + 8 * 1.2e-7 * np.abs(POSITIONS)[:, None, None])


def test_overwrites_its_own_input(tmp_path, model, ids):
    np.save(tmp_path / "x.npy", X)
    rotate(model, tmp_path / "x.npy", tmp_path / "x.npy", ids)
    assert_rotated(np.load(tmp_path / "x.npy"), expected(), "float64")


def test_interleaved_pairs_of_a_part_of_the_head(tmp_path, ids):
    config = {"model_type": "gptj", "n_embd": 48, "n_head": 3, "n_positions": 2048, "rotary_dim": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    np.save(tmp_path / "in.npy", X)
    rotate(tmp_path, tmp_path / "in.npy", tmp_path / "out.npy", ids)
    target = rotate_heads(X, POSITIONS[:, None] * base_frequencies(10000.0, 8), "interleaved")
    assert_rotated(np.load(tmp_path / "out.npy"), target, "float64")


# ---- safetensors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [None, {"format": "np", "note": '\u00e9"\\'}])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_reads_and_writes_what_safetensors_does(tmp_path, model, ids, dtype, metadata):
    path = tmp_path / "in.safetensors"
    safetensors.numpy.save_file({"model.q": X.astype(dtype)}, path, metadata=metadata)
    rotate(model, path, tmp_path / "out.safetensors", ids)
    (out,) = safetensors.numpy.load_file(tmp_path / "out.safetensors").values()
    assert out.dtype == dtype
    assert_rotated(out, expected(), dtype)


@pytest.mark.parametrize("metadata", [{}, {"__metadata__": {"format": "pt"}}])
def test_bfloat16(tmp_path, model, ids, metadata):
    save_raw(tmp_path / "in.safetensors", "BF16", to_bfloat16(X), **metadata)
    rotate(model, tmp_path / "in.safetensors", tmp_path / "out.safetensors", ids)
    out = load_raw(tmp_path / "out.safetensors")
    assert out["dtype"] == "BF16"
    assert_rotated(from_bfloat16(out["data"], out["shape"]), expected(), "bfloat16")


def test_elements_of_a_written_file_are_aligned(tmp_path, model, ids):
    np.save(tmp_path / "in.npy", X)
    rotate(model, tmp_path / "in.npy", tmp_path / "out.safetensors", ids)
    assert int.from_bytes((tmp_path / "out.safetensors").read_bytes()[:8], "little") % 8 == 0


def test_from_one_format_to_the_other(tmp_path, model, ids):
    np.save(tmp_path / "a.npy", X.astype(np.float16))
    rotate(model, tmp_path / "a.npy", tmp_path / "b.safetensors", ids)
    rotate(model, tmp_path / "b.safetensors", tmp_path / "c.npy", ids, "--inverse")
    back = np.load(tmp_path / "c.npy")
    assert back.dtype == np.float16
    np.testing.assert_allclose(back.astype(np.float64), X, rtol=0, atol=2**-8)


# ---- What is refused -----------------------------------------------------------------------------


def refused_input(tmp_path, model, ids, name):
    out = tmp_path / "out.npy"
    line = refused("rotate", model, tmp_path / name, out, "--positions", ids)
    assert not out.exists()
    return line


def test_truncated_and_padded_files_are_refused(tmp_path, model, ids):
    np.save(tmp_path / "good.npy", X)
    safetensors.numpy.save_file({"q": X}, tmp_path / "good.safetensors")
    for name in ["good.npy", "good.safetensors"]:
        content = (tmp_path / name).read_bytes()
        bad = "bad" + (tmp_path / name).suffix
        for change in [content[:-1], content[:40], content[:7], b"", content + b"\0"]:
            (tmp_path / bad).write_bytes(change)
            line = refused_input(tmp_path, model, ids, bad)
            assert str(tmp_path / bad) in line and "at byte" in line


def test_dtypes_without_a_rotation_are_refused_by_name(tmp_path, model, ids):
    arrays = {
        "<c8": X.astype(np.complex64),
        "<i2": X.astype(np.int16),
        "|b1": X > 0,
        "object": X.astype(object),
        "structured": np.zeros((5, 3, 16), dtype=[("a", "<f4")]),
    }
    for word, array in arrays.items():
        np.save(tmp_path / "in.npy", array, allow_pickle=True)
        assert word in refused_input(tmp_path, model, ids, "in.npy")
    safetensors.numpy.save_file({"q": X.astype(np.uint8)}, tmp_path / "in.safetensors")
    assert "U8" in refused_input(tmp_path, model, ids, "in.safetensors")


def test_bfloat16_cannot_become_npy(tmp_path, model, ids):
    save_raw(tmp_path / "in.safetensors", "BF16", to_bfloat16(X))
    before = sorted(tmp_path.iterdir())
    assert ".safetensors" in refused_input(tmp_path, model, ids, "in.safetensors")
    assert sorted(tmp_path.iterdir()) == before


def test_an_absent_folder_is_named(tmp_path, model, ids):
    np.save(tmp_path / "in.npy", X)
    out = tmp_path / "absent" / "out.npy"
    assert str(out) in refused("rotate", model, tmp_path / "in.npy", out, "--positions", ids)
