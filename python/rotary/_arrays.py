# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Array libraries: how each exports its memory, allocates an array and names its stream.

Only NumPy is imported here: other libraries are found by the type of the array.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

#: DLPack's number of the legacy default stream; CUDA's own 0 is ambiguous there.
_LEGACY_STREAM = 1
_CUDA_DEVICES = (2, 13)


#: ml_dtypes' names of the 8-bit types, and rotary's.
_FLOAT8 = {"float8_e4m3fn": "float8_e4m3", "float8_e5m2": "float8_e5m2"}


class Library:
    """Any array with DLPack and the array API; base class of those that need more."""

    def is_cuda(self, x: Any) -> bool:
        return x.__dlpack_device__()[0] in _CUDA_DEVICES

    def current_stream(self, x: Any) -> int:
        """The cudaStream_t on which the library works now; 0 where it does not say."""
        return 0

    def on_device(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        """Makes the device of the array the current one."""
        return contextlib.nullcontext()

    def export(self, x: Any, stream: int | None, write: bool) -> Any:
        """The argument for rotary._core: an array of NumPy, or a capsule. `stream` is where the
        memory will be used; None for the library's current stream, without synchronisation."""
        options: dict[str, Any] = {}
        if self.is_cuda(x):
            options["stream"] = (stream or _LEGACY_STREAM) if self.needs_wait(stream) else -1
        try:
            return x.__dlpack__(max_version=(1, 1), **options)
        except TypeError:  # from before DLPack 1.0
            return x.__dlpack__(**options)

    def needs_wait(self, stream: int | None) -> bool:
        return True

    def empty_like(self, x: Any) -> Any:
        return x.__array_namespace__().empty_like(x)

    def empty(self, shape: Sequence[int], dtype: str, like: Any) -> Any:
        namespace = like.__array_namespace__()
        return namespace.empty(tuple(shape), dtype=getattr(namespace, dtype), device=like.device)

    def finish(self, x: Any) -> Any:
        """The caller's array for one that was allocated by empty_like() and filled."""
        return x

    def after_write(self, x: Any) -> None:
        """The array was changed in place."""


class NumPy(Library):
    def is_cuda(self, x: Any) -> bool:
        return False

    def export(self, x: Any, stream: int | None, write: bool) -> Any:
        if write and not x.flags.writeable:
            raise ValueError("[rotary] the array is read-only and cannot be changed in place")
        if x.dtype.kind == "V" and x.dtype.name == "bfloat16":  # ml_dtypes; DLPack refuses it
            return x.view(np.uint16), "bfloat16"
        if x.dtype.name in _FLOAT8:  # likewise
            return x.view(np.uint8), _FLOAT8[x.dtype.name]
        return x

    def empty_like(self, x: Any) -> Any:
        # Order "K" keeps the order of the axes. Large results are written fastest where heads begin
        # at multiples of 64 bytes, which NumPy does not promise.
        if x.nbytes < 1 << 16 or not x.flags.c_contiguous:
            return np.empty_like(x, subok=False)
        return self.empty(x.shape, x.dtype, x)

    def empty(self, shape: Sequence[int], dtype: Any, like: Any) -> Any:
        kind = _dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        memory = np.empty(size + 64, np.uint8)
        begin = -memory.ctypes.data % 64
        return memory[begin : begin + size].view(kind).reshape(shape)


def _dtype(dtype: Any) -> np.dtype[Any]:
    """A NumPy type by name; bfloat16 is that of ml_dtypes."""
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    kind: np.dtype[Any] = np.dtype(dtype)
    return kind


class Torch(Library):
    def __init__(self) -> None:
        self.torch = sys.modules["torch"]
        self.to_dlpack = sys.modules["torch.utils.dlpack"].to_dlpack

    def is_cuda(self, x: Any) -> bool:
        return bool(x.is_cuda)

    def current_stream(self, x: Any) -> int:
        return int(self.torch.cuda.current_stream(x.device).cuda_stream)

    def on_device(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        guard: contextlib.AbstractContextManager[Any] = self.torch.cuda.device(x.device)
        return guard

    def needs_wait(self, stream: int | None) -> bool:
        return stream is not None

    def export(self, x: Any, stream: int | None, write: bool) -> Any:
        if x.requires_grad and (write or self.torch.is_grad_enabled()):
            raise ValueError(
                "[rotary] this tensor requires grad, and no gradient would flow here: use "
                "rotary.torch, or x.detach()"
            )
        if x.is_neg():
            raise ValueError("[rotary] this tensor is a negated view: use x.resolve_neg()")
        if x.requires_grad:
            x = x.detach()
        # The function does not synchronise and takes a third of the time of the method.
        return self.to_dlpack(x) if stream is None else super().export(x, stream, write)

    def empty_like(self, x: Any) -> Any:
        return self.torch.empty_like(x)

    def empty(self, shape: Sequence[int], dtype: str, like: Any) -> Any:
        return self.torch.empty(tuple(shape), dtype=getattr(self.torch, dtype), device=like.device)

    def after_write(self, x: Any) -> None:
        if not x.is_inference():  # so that autograd sees the change
            self.torch.autograd.graph.increment_version(x)


class CuPy(Library):
    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def is_cuda(self, x: Any) -> bool:
        return True

    def current_stream(self, x: Any) -> int:
        return int(self.cupy.cuda.get_current_stream().ptr)

    def on_device(self, x: Any) -> contextlib.AbstractContextManager[Any]:
        device: contextlib.AbstractContextManager[Any] = x.device
        return device

    def needs_wait(self, stream: int | None) -> bool:
        return stream is not None

    def empty_like(self, x: Any) -> Any:
        return self.cupy.empty_like(x)


class Jax(Library):
    """JAX arrays are immutable: results are computed in NumPy arrays and converted."""

    def __init__(self) -> None:
        self.jax = sys.modules["jax"]

    def export(self, x: Any, stream: int | None, write: bool) -> Any:
        if write:
            raise ValueError("[rotary] arrays of JAX cannot be changed in place")
        if self.is_cuda(x):
            raise ValueError("[rotary] arrays of JAX are rotated on the CPU only")
        return super().export(x, stream, write)

    def empty_like(self, x: Any) -> Any:
        return _NUMPY.empty(x.shape, x.dtype, x)

    def empty(self, shape: Sequence[int], dtype: str, like: Any) -> Any:
        return _NUMPY.empty(shape, dtype, like)

    def finish(self, x: Any) -> Any:
        return self.jax.numpy.asarray(x)


_NUMPY = NumPy()
_LIBRARIES = {"numpy": NumPy, "torch": Torch, "cupy": CuPy, "jax": Jax, "jaxlib": Jax}
_known: dict[type, Library] = {np.ndarray: _NUMPY}


def library_of(x: Any) -> Library:
    """The library of an array. Raises TypeError for other objects."""
    kind = type(x)
    library = _known.get(kind)
    if library is None:
        library = _known[kind] = _find(kind)
    return library


def _find(kind: type) -> Library:
    if issubclass(kind, np.ma.MaskedArray):  # would be read as if nothing were masked
        raise TypeError("[rotary] masked arrays are not taken: use x.filled(value)")
    for base in kind.__mro__:
        make = _LIBRARIES.get(base.__module__.partition(".")[0])
        if make is not None and hasattr(kind, "__dlpack__"):
            return make()
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return Library()
    raise TypeError(
        f"[rotary] an array is needed that speaks DLPack (NumPy, PyTorch, CuPy, JAX, ...), "
        f"got {kind.__module__}.{kind.__qualname__}"
    )


def export(x: Any, stream: int | None = None, write: bool = False) -> Any:
    return library_of(x).export(x, stream, write)


def stream_handle(stream: Any) -> int:
    """A cudaStream_t as a number: of PyTorch, CuPy, cuda.core, or a number itself."""
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(stream)
