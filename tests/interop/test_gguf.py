# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""GGUF files written by the public gguf package are read by ours, and give the rotation that an
independent NumPy computation gives.

Run by `make test`; by hand, with numpy and gguf installed:
    ROTARY_COMMAND=build/bin/rotary python -m pytest tests/interop
"""

import gguf
import numpy as np
import pytest
from interop import (
    assert_rotated,
    base_frequencies,
    random_heads,
    refused,
    rope_of,
    ropes_of,
    rotate,
    rotate_heads,
    yarn,
)

HEAD_DIM = 128
SCALING = gguf.RopeScalingType


def write(path, arch, configure=None, tensors=None, endianess=gguf.GGUFEndian.LITTLE, **base):
    """A model of 8 heads of 128; `base` replaces its usual values."""
    values = {"context_length": 8192, "theta": 500000.0, "dimension_count": HEAD_DIM, **base}
    writer = gguf.GGUFWriter(path, arch, endianess=endianess)
    writer.add_context_length(values["context_length"])
    writer.add_embedding_length(8 * HEAD_DIM)
    writer.add_block_count(2)
    writer.add_head_count(8)
    writer.add_head_count_kv(2)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(values["dimension_count"])
    writer.add_rope_freq_base(values["theta"])
    if configure:
        configure(writer)
    for name, array in (tensors or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def frequencies(rope):
    """[pairs, axes]"""
    return np.array(rope["frequencies"], dtype=np.float64)


def assert_frequencies(rope, expected, rtol=1e-12):
    actual = frequencies(rope)
    assert actual.shape == (len(expected), 1)
    np.testing.assert_allclose(actual[:, 0], expected, rtol=rtol)


@pytest.fixture(name="path")
def gguf_path(tmp_path):
    return tmp_path / "model.gguf"


def llama3_divisors(dim=HEAD_DIM, theta=500000.0, factor=8.0, original=8192, low=1.0, high=4.0):
    """What the converter of Llama 3.1 stores as rope_freqs."""
    f = base_frequencies(theta, dim)
    smooth = np.clip((original * f / (2 * np.pi) - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def test_plain_llama(path):
    write(path, "llama")
    rope = rope_of(path)
    assert_frequencies(rope, base_frequencies(500000.0, HEAD_DIM))
    assert rope["pairing"] == "interleaved"
    assert rope["head_dim"] == HEAD_DIM
    assert rope["rotary_dim"] == HEAD_DIM
    assert rope["rotary_offset"] == 0
    assert rope["scale"] == 1
    assert rope["context"]["trained"] == 8192


def test_half_pairing_and_part_of_the_head(path):
    write(path, "gptneox", dimension_count=32, theta=10000.0)
    rope = rope_of(path)
    assert_frequencies(rope, base_frequencies(10000.0, 32))
    assert rope["pairing"] == "half"
    assert rope["rotary_dim"] == 32


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_rope_freqs_divide(path, dtype):
    divisors = llama3_divisors().astype(dtype)
    write(path, "llama", tensors={"rope_freqs.weight": divisors})
    assert_frequencies(
        rope_of(path), base_frequencies(500000.0, HEAD_DIM) / divisors.astype(np.float64)
    )


def test_linear_scaling(path):
    def configure(writer):
        writer.add_rope_scaling_type(SCALING.LINEAR)
        writer.add_rope_scaling_factor(4.0)

    write(path, "llama", configure)
    rope = rope_of(path)
    assert_frequencies(rope, base_frequencies(500000.0, HEAD_DIM) / 4)
    assert rope["recipe"]["type"] == "linear"
    assert rope["scale"] == 1


def test_linear_scaling_without_a_type_and_by_its_old_key(path):
    write(path, "llama", lambda writer: writer.add_rope_scaling_factor(2.0))
    assert_frequencies(rope_of(path), base_frequencies(500000.0, HEAD_DIM) / 2)
    write(path, "llama", lambda writer: writer.add_float32("llama.rope.scale_linear", 2.0))
    assert_frequencies(rope_of(path), base_frequencies(500000.0, HEAD_DIM) / 2)


def configure_yarn(writer):
    writer.add_rope_scaling_type(SCALING.YARN)
    writer.add_rope_scaling_factor(4.0)
    writer.add_rope_scaling_orig_ctx_len(32768)
    writer.add_float32("qwen2.rope.scaling.yarn_beta_fast", 32.0)
    writer.add_float32("qwen2.rope.scaling.yarn_beta_slow", 1.0)


def test_yarn_scaling(path):
    write(path, "qwen2", configure_yarn, context_length=131072, theta=1e6)
    expected, scale = yarn(1e6, HEAD_DIM, 4.0, 32768)
    rope = rope_of(path)
    assert_frequencies(rope, expected)
    assert rope["scale"] == pytest.approx(scale, rel=1e-12)
    assert rope["pairing"] == "half"
    assert rope["recipe"]["type"] == "yarn"
    assert rope["context"] == {"trained": 32768, "extended": 131072}


def test_longrope_takes_its_factors_from_tensors(path, tmp_path):
    def configure(writer):
        writer.add_rope_scaling_orig_ctx_len(4096)
        writer.add_rope_scaling_attn_factors(1.1902)

    short = np.linspace(1, 2, HEAD_DIM // 2, dtype=np.float32)
    long = np.linspace(1, 60, HEAD_DIM // 2, dtype=np.float32)
    tensors = {"rope_factors_long.weight": long, "rope_factors_short.weight": short}
    write(path, "phi3", configure, tensors, context_length=131072, theta=10000.0)
    rope = rope_of(path)
    scale = float(np.float32(1.1902))
    assert_frequencies(rope, base_frequencies(10000.0, HEAD_DIM) / short)
    assert rope["scale"] == pytest.approx(scale, rel=1e-12)
    assert rope["recipe"]["type"] == "longrope"
    assert rope["context"] == {"trained": 4096, "extended": 131072}

    x = random_heads(3, 2, HEAD_DIM)
    np.save(tmp_path / "x.npy", x)
    for context, factors in [(4096, short), (4097, long), (131072, long)]:
        rotate(path, tmp_path / "x.npy", tmp_path / "y.npy", "0:3", "--context", context)
        phases = np.arange(3)[:, None] * base_frequencies(10000.0, HEAD_DIM) / factors
        assert_rotated(
            np.load(tmp_path / "y.npy"), rotate_heads(x, phases, "half", scale), "float64"
        )


def test_sections_give_the_pairs_to_axes(path, tmp_path):
    sections = [16, 24, 24]
    # The converter pads to four.
    write(
        path,
        "qwen2vl",
        lambda writer: writer.add_rope_dimension_sections([*sections, 0]),
        theta=1e6,
    )
    rope = rope_of(path)
    axis_of = np.repeat([0, 1, 2], sections)
    expected = np.zeros((HEAD_DIM // 2, 3))
    expected[np.arange(HEAD_DIM // 2), axis_of] = base_frequencies(1e6, HEAD_DIM)
    np.testing.assert_allclose(frequencies(rope), expected, rtol=1e-12)
    assert rope["axes"] == ["t", "h", "w"]

    x = random_heads(4, 2, HEAD_DIM)
    positions = np.array([[0, 1, 1, 2], [0, 1, 5, 2], [0, 7, 1, 2]])
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "p.npy", positions)
    rotate(path, tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "p.npy")
    target = rotate_heads(x, positions.T @ expected.T, "half")
    assert_rotated(np.load(tmp_path / "y.npy"), target, "float64")


@pytest.mark.parametrize("factor", [None, 8.0])
def test_sliding_layers_have_a_base_of_their_own(path, factor):
    def configure(writer):
        writer.add_sliding_window(1024)
        writer.add_float32("gemma3.rope.freq_base_swa", 10000.0)
        if factor:
            writer.add_rope_scaling_type(SCALING.LINEAR)
            writer.add_rope_scaling_factor(factor)

    write(path, "gemma3", configure, context_length=131072, theta=1e6)
    ropes = ropes_of(path)
    assert sorted(ropes) == ["full_attention", "sliding_attention"]
    assert_frequencies(ropes["full_attention"], base_frequencies(1e6, HEAD_DIM) / (factor or 1))
    assert_frequencies(ropes["sliding_attention"], base_frequencies(10000.0, HEAD_DIM))


def test_rotates_by_a_gguf(path, tmp_path):
    divisors = llama3_divisors()
    write(path, "llama", tensors={"rope_freqs.weight": divisors})
    x = random_heads(4, 2, HEAD_DIM)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    positions = np.array([0, 1, 8191, 100000])
    np.save(tmp_path / "p.npy", positions)
    rotate(path, tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "p.npy")
    phases = positions[:, None] * base_frequencies(500000.0, HEAD_DIM) / divisors
    assert_rotated(np.load(tmp_path / "y.npy"), rotate_heads(x, phases, "interleaved"), "float32")


def test_big_endian(path):
    tensors = {"rope_freqs.weight": llama3_divisors()}
    write(path, "llama", tensors=tensors, endianess=gguf.GGUFEndian.BIG)
    assert_frequencies(rope_of(path), base_frequencies(500000.0, HEAD_DIM) / llama3_divisors())


def test_a_vocabulary_does_not_matter(path):
    def configure(writer):
        writer.add_token_list([f"token {i}" for i in range(50000)])
        writer.add_token_scores([0.5] * 50000)
        writer.add_token_types([1] * 50000)
        writer.add_bool("x.flag", True)
        writer.add_int64("x.big", -(2**40))
        writer.add_float64("x.double", 0.1)

    write(path, "llama", configure)
    assert_frequencies(rope_of(path), base_frequencies(500000.0, HEAD_DIM))


def test_a_truncated_file_is_refused(path):
    write(path, "llama", tensors={"rope_freqs.weight": llama3_divisors()})
    content = path.read_bytes()
    for size in [4, 8, 23, 100, len(content) // 2, len(content) - 33 * 4]:
        path.write_bytes(content[:size])
        line = refused("inspect", path, "--json")
        assert str(path) in line and "at byte" in line


def test_sliding_layers_have_widths_of_their_own(path):
    def configure(writer):
        writer.add_float32("gemma4.rope.freq_base_swa", 10000.0)
        writer.add_uint32("gemma4.rope.dimension_count_swa", 64)
        writer.add_uint32("gemma4.attention.key_length_swa", 64)

    write(path, "gemma4", configure)
    ropes = ropes_of(path)
    assert ropes["full_attention"]["head_dim"] == HEAD_DIM
    assert ropes["sliding_attention"]["head_dim"] == 64
    assert_frequencies(ropes["sliding_attention"], base_frequencies(10000.0, 64))


def test_models_without_a_rotation_are_refused(path):
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_embedding_length(768)
    writer.add_head_count(12)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "no rotation found" in refused("inspect", path)


def test_a_folder_of_ggufs(tmp_path):
    write(tmp_path / "model-00001-of-00002.gguf", "llama")
    write(tmp_path / "model-00002-of-00002.gguf", "llama", theta=1.0)
    write(tmp_path / "mmproj-F16.gguf", "clip", theta=1.0)
    assert_frequencies(rope_of(tmp_path), base_frequencies(500000.0, HEAD_DIM))
    write(tmp_path / "other.gguf", "llama")
    line = refused("inspect", tmp_path)
    assert "model-00001-of-00002.gguf, other.gguf" in line
