# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments raise errors with the library's message, and nothing is written."""

import pickle
import re

import numpy as np
import pytest
from definition import values

import rotary

ROPE = rotary.Rope(head_dim=16, theta=1e4, pairing="half")
F32 = np.float32


def yarn(**options):
    return rotary.Rope(head_dim=16, theta=1e4, pairing="half", scaling=rotary.Yarn(**options))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: rotary.Rope(head_dim=7, theta=1e4, pairing="half"), ValueError,
         "[make_frequencies] rotary_dim must be even, got 7"),
        (lambda: rotary.Rope(head_dim=16, rotary_dim=32, theta=1e4, pairing="half"), ValueError,
         "[Rope] the rotary slice must fit into head_dim 16, got rotary_dim 32 at rotary_offset 0"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4, pairing=None), ValueError,
         "[Rope] pairing must be given: Pairing::kHalf or kInterleaved"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4, pairing="neox"), ValueError,
         "[HeadLayout] pairing must be one of interleaved, half, got neox"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4), TypeError,
         "Rope.__init__() missing 1 required keyword-only argument: 'pairing'"),
        (lambda: rotary.Rope(head_dim=16, theta="1e4", pairing="half"), TypeError,
         "[Recipe] theta must be a number, got '1e4'"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4, pairing="half", scaling="yarn"), TypeError,
         "[Recipe] scaling must be one of Plain, Linear, Ntk, NtkAlpha, DynamicNtk, Yarn, "
         "YarnPaper, YarnWalkthrough, LongRope, Llama3, Proportional, Divisors, Learnable, "
         "ReceptiveField, Xpos, got 'yarn'"),
        (lambda: yarn(factor="4"), TypeError, "[Yarn] factor must be a number, got '4'"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4, pairing="half", threads=-1), ValueError,
         "[Rope] threads.count must not be negative, got -1"),
        (lambda: rotary.Rope(head_dim=16, theta=1e4, pairing="half", threads=1 << 32), ValueError,
         "[Rope] threads must be at most 2147483647, got 4294967296"),
        (lambda: ROPE.rotate(values(4, 2, 8)), ValueError,
         "[rotate] the last size must be head_dim 16, got shape [4, 2, 8]"),
        (lambda: ROPE.unrotate(values(4, 16)), ValueError,
         "[unrotate] the tensor must be [tokens, heads, head_dim] or "
         "[batch, tokens, heads, head_dim], got rank 2"),
        (lambda: ROPE.rotate(values(1, 1, 1, 2, 16)), ValueError,
         "[rotate] arrays must have at most 4 dimensions, got 5"),
        (lambda: ROPE.rotate(values(2, 2, 16, dtype=np.int32)), ValueError,
         "[rotate] the tensor must be of a floating-point type, got int32"),
        (lambda: ROPE.rotate(values(2, 2, 16, dtype=np.int8)), ValueError,
         "[rotate] the tensor must be of a floating-point type, got int8"),
        (lambda: ROPE.rotate(values(2, 2, 16, dtype=np.int16)), ValueError,
         "[rotate] tensors must be float32, float64, bfloat16 or float16, positions int32, int64, "
         "float32 or float64, got int16"),
        (lambda: ROPE.rotate(values(2, 2, 16), positions=np.zeros(2, np.uint8)), ValueError,
         "[Positions::ids] tensors must be float32, float64, bfloat16 or float16, positions int32, "
         "int64, float32 or float64, got uint8"),
        (lambda: ROPE.rotate(values(2, 2, 16), positions=[1, 2, 3]), ValueError,
         "[rotate] positions must be given for 2 tokens, got 3"),
        (lambda: ROPE.rotate(values(2, 2, 16), positions=[1, float("nan")]), ValueError,
         "[rotate] positions must be finite, got nan at token 1"),
        (lambda: ROPE.shift(values(2, 2, 16), delta=[1]), ValueError,
         "[shift] positions must be given for 2 tokens, got 1"),
        (lambda: rotary.packed([1, 2]), ValueError,
         "[Positions::packed] boundaries must begin with 0, got 1"),
        (lambda: rotary.packed([0, 2], first=[1, 2]), ValueError,
         "[Positions::packed] first must have one entry a sequence (1), got 2"),
        (lambda: ROPE.rotate_(np.broadcast_to(values(1, 1, 16), (4, 1, 16))), ValueError,
         "[rotary] the array is read-only and cannot be changed in place"),
        (lambda: ROPE.rotate(values(4, 2, 16), values(5, 2, 16)), ValueError,
         "[rotate] tensors of one call must share batch and tokens, got [1, 4, 2, 16] and "
         "[1, 5, 2, 16]"),
        (lambda: ROPE.rotate([[[1.0] * 16]]), TypeError,
         "[rotary] an array is needed that speaks DLPack (NumPy, PyTorch, CuPy, JAX, ...), got "
         "builtins.list"),
        (lambda: ROPE.rotate(values(2, 2, 16, dtype=">f4")), TypeError,
         "[rotate] memory cannot be shared with this ndarray"),
        (lambda: ROPE.rotate(), TypeError, "at least one tensor is needed"),
        (lambda: ROPE.cos_sin(5), ValueError,
         "[cos_sin] tokens must be given for positions that fit any number"),
        (lambda: rotary.Model.from_config({"model_type": "llama", "rope_scaling": {"type": "no"}}),
         ValueError, None),
        (lambda: rotary.Rope.from_pretrained(3), TypeError,
         "[rotary] a model is a path, the dict of its config.json or a config with to_dict(), got "
         "int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_rejects(call, error, text):
    with pytest.raises(error) as caught:
        call()
    if text is not None:
        assert str(caught.value) == text
    assert type(caught.value) is error


def test_rejected_calls_write_nothing():
    x = values(4, 2, 16)
    given = x.copy()
    with pytest.raises(ValueError, match="tokens, got 3"):
        ROPE.rotate_(x, positions=[1, 2, 3])
    np.testing.assert_array_equal(x, given)


def test_rejects_overlapping_memory():
    x = values(8, 2, 16)
    with pytest.raises(ValueError, match="must not share memory that is written"):
        ROPE.rotate_(x[:5], x[3:])
    with pytest.raises(ValueError, match="must be the same view or share no memory"):
        ROPE.rotate(x[:5], out=x[1:6])
    writable = np.lib.stride_tricks.as_strided(x, (4, 2, 16), (0, 64, 4))
    with pytest.raises(ValueError, match=re.escape("(a broadcast view?), got strides")):
        ROPE.rotate_(writable)


@pytest.mark.parametrize(
    "call",
    [
        lambda masked: ROPE.rotate(masked),
        lambda masked: ROPE.rotate_(masked),
        lambda masked: ROPE.rotate(values(4, 2, 16), np.ma.masked_array(np.arange(4))),
        lambda masked: rotary.packed(np.ma.masked_array([0, 4])),
    ],
)
def test_masked_arrays_are_refused(call):
    masked = np.ma.masked_array(values(4, 2, 16), mask=True)
    with pytest.raises(TypeError, match=re.escape("masked arrays are not taken: use x.filled")):
        call(masked)


def test_missing_file():
    with pytest.raises(rotary.IoError) as caught:
        rotary.Rope.from_pretrained("no/such/config.json")
    assert isinstance(caught.value, OSError)
    assert str(caught.value) == "no/such/config.json: cannot open: No such file or directory"
    assert caught.value.path == "no/such/config.json"
    assert caught.value.offset is None
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.path) == (str(caught.value), caught.value.path)


def test_corrupt_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": ')
    with pytest.raises(rotary.IoError) as caught:
        rotary.inspect(path)
    assert caught.value.path == str(path)
    assert caught.value.offset == 15


def test_cuda_errors_are_runtime_errors():
    error = pickle.loads(pickle.dumps(rotary.CudaError("[rotate] no device", 100)))
    assert isinstance(error, RuntimeError)
    assert (str(error), error.code) == ("[rotate] no device", 100)
