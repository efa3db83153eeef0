# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries: read and written without copies; results are of the same library."""

import ml_dtypes
import numpy as np
import pytest
import torch
from definition import rotated, values

import rotary
from rotary._arrays import library_of, stream_handle

ROPE = rotary.Rope(head_dim=32, theta=1e4, pairing="half")


class Foreign:
    """An array of a library that supports only DLPack; records the requests."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.requests = array, versioned, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if options and not self.versioned:
            raise TypeError("unexpected keyword argument")
        self.requests.append(options)
        return self.array.__dlpack__(**options)

    def __array_namespace__(self):
        return ForeignNamespace


class ForeignNamespace:
    @staticmethod
    def empty_like(x):
        return Foreign(np.empty_like(x.array))


@pytest.mark.parametrize("versioned", [True, False])
def test_any_dlpack_array(versioned):
    x = values(4, 2, 32)
    result = ROPE.rotate(Foreign(x, versioned), positions=Foreign(np.arange(4), versioned))
    assert isinstance(result, Foreign)
    np.testing.assert_array_equal(result.array, ROPE.rotate(x))
    foreign = Foreign(x.copy(), versioned)
    assert ROPE.rotate_(foreign) is foreign
    np.testing.assert_array_equal(foreign.array, ROPE.rotate(x))


def test_rejects_writing_read_only_memory():
    x = values(4, 2, 32)
    x.flags.writeable = False
    np.testing.assert_array_equal(ROPE.rotate(Foreign(x)).array, ROPE.rotate(x))
    with pytest.raises(TypeError, match="or it is read-only"):
        ROPE.rotate_(Foreign(x))


class OnOtherDevice(Foreign):
    def __dlpack_device__(self):
        return (8, 0)  # Metal

    def __dlpack__(self, **options):
        return DeviceCapsule.of(self.array)


class DeviceCapsule:
    """The capsule of an array that claims to be on another device."""

    @staticmethod
    def of(array):
        import ctypes

        capsule = array.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = get(capsule, b"dltensor")
        ctypes.cast(tensor + 8, ctypes.POINTER(ctypes.c_int32))[0] = 8
        return capsule


def test_rejects_other_devices():
    text = r"^\[rotate\] arrays must be on the CPU or on CUDA, got DLPack device 8$"
    with pytest.raises(ValueError, match=text):
        ROPE.rotate_(OnOtherDevice(values(4, 2, 32)))


def test_nothing_is_copied():
    x = values(4, 2, 32)
    address = x.ctypes.data
    assert ROPE.rotate_(x).ctypes.data == address
    t = torch.from_numpy(values(4, 2, 32))
    address = t.data_ptr()
    assert ROPE.rotate_(t).data_ptr() == address
    view = t[1:3, :, :]
    ROPE.rotate_(view, positions=1)
    expected = ROPE.rotate(values(4, 2, 32))
    np.testing.assert_array_equal(t[1:3].numpy(), ROPE.rotate(expected[1:3], positions=1))
    np.testing.assert_array_equal(t[0].numpy(), expected[0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_pytorch(dtype):
    x = torch.from_numpy(values(2, 5, 3, 32)).to(getattr(torch, dtype))
    result = ROPE.rotate(x, positions=torch.arange(7, 12))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == x.dtype
    wide = x.double().numpy()
    expected = np.stack([rotated(row, ROPE, np.arange(7, 12)) for row in wide])
    close = {"float64": 1e-14, "float32": 5e-7, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    np.testing.assert_allclose(result.double().numpy(), expected, atol=close, rtol=close)
    in_place = x.clone()
    ROPE.rotate_(in_place, positions=torch.arange(7, 12, dtype=torch.int32))
    assert torch.equal(in_place, result)


def test_pytorch_layouts_are_kept():
    heads_first = torch.from_numpy(values(2, 3, 5, 32)).transpose(1, 2)
    result = ROPE.rotate(heads_first)
    assert result.stride() == heads_first.stride()
    assert torch.equal(result, ROPE.rotate(heads_first.contiguous()))


def test_pytorch_tensors_that_require_grad():
    x = torch.zeros(4, 2, 32, requires_grad=True)
    for call in (ROPE.rotate, ROPE.rotate_):
        with pytest.raises(ValueError, match=r"^\[rotary\] this tensor requires grad, and no"):
            call(x)
    with torch.no_grad():
        assert not ROPE.rotate(x).requires_grad
    assert ROPE.rotate(x.detach()).shape == x.shape


def test_autograd_sees_a_change_in_place():
    x = torch.ones(4, 2, 32)
    version = x._version
    ROPE.rotate_(x)
    assert x._version == version + 1
    with torch.inference_mode():
        ROPE.rotate_(torch.ones(4, 2, 32))


def test_bfloat16_of_ml_dtypes_is_that_of_pytorch():
    t = torch.from_numpy(values(4, 2, 32)).bfloat16()
    x = t.float().numpy().astype(ml_dtypes.bfloat16)
    result = ROPE.rotate(x)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.astype(np.float32), ROPE.rotate(t).float().numpy())
    address = x.ctypes.data
    ROPE.rotate_(x)
    assert x.ctypes.data == address
    np.testing.assert_array_equal(x, result)
    assert ROPE.cos_sin(range(3), dtype="bfloat16")[0].dtype == ml_dtypes.bfloat16


def test_cos_sin_follows_the_library_of_positions():
    cos, sin = ROPE.cos_sin(torch.arange(4), dtype="bfloat16")
    assert cos.dtype == sin.dtype == torch.bfloat16
    assert cos.shape == (4, 16)
    assert isinstance(ROPE.cos_sin(range(4), like=cos)[0], torch.Tensor)


def test_q_and_k_of_two_libraries():
    q, k = values(4, 2, 32), torch.from_numpy(values(4, 1, 32))
    rotated_q, rotated_k = ROPE.rotate(q, k)
    assert isinstance(rotated_q, np.ndarray)
    assert isinstance(rotated_k, torch.Tensor)


class FakeCuda:
    """Memory that claims to be on CUDA, to test its DLPack requests without a GPU."""

    def __init__(self):
        self.requests = []

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        self.requests.append(options)
        raise BufferError("no GPU here")


@pytest.mark.parametrize("stream, requested", [(None, 1), (7, 7), (0, 1)])
def test_stream_passed_to_dlpack(stream, requested):
    x = FakeCuda()
    with pytest.raises(BufferError, match="no GPU here"):
        ROPE.rotate_(x, stream=stream)
    assert [options["stream"] for options in x.requests] == [requested]


def test_stream_handles():
    class OfPyTorch:
        cuda_stream = 11

    class OfCuPy:
        ptr = 12

    class OfCuda:
        def __cuda_stream__(self):
            return (0, 13)

    assert [stream_handle(s) for s in (OfPyTorch(), OfCuPy(), OfCuda(), 14)] == [11, 12, 13, 14]


def test_cuda_array_without_engine_or_driver():
    assert isinstance(rotary.has_cuda(), bool)
    assert rotary.cuda_device_count() >= 0


def test_subclasses_belong_to_their_library():
    class Mine(np.ndarray):
        pass

    x = values(4, 2, 32).view(Mine)
    assert library_of(x) is not None
    np.testing.assert_array_equal(np.asarray(ROPE.rotate(x)), ROPE.rotate(np.asarray(x)))
    assert isinstance(ROPE.rotate(torch.nn.Parameter(torch.ones(2, 1, 32), False)), torch.Tensor)
