# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Operators of rotation over PyTorch's stable ABI: one library for PyTorch 2.11 and newer.

The library (pytorch/stable) has the kernels. Schemas, shapes and derivatives are registered here,
for which the stable ABI has no C++. This file and stable_derivatives.py need PyTorch alone:
`rotary export kernels` copies them, and the library, into a folder.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .stable_derivatives import (
    ROTATIONS,
    TABLES,
    apply_plain,
    apply_rotation,
    apply_table,
    autograd_in_place,
    autograd_position_gradient,
    autograd_rotation,
    autograd_table,
    below_autograd,
    layout_of,
    needs_derivative,
)

OLDEST = (2, 11)

_POSITIONS = "Tensor? positions=None, Tensor? cu_seqlens=None, SymInt first=0, int token_dim=-3"


def schemas() -> list[str]:
    """As in pytorch/library.cc."""
    found = []
    for name in ROTATIONS:
        found.append(f"{name}(Tensor[] tensors, str rope, {_POSITIONS}) -> Tensor[]")
        found.append(f"{name}_(Tensor(a!)[] tensors, str rope, {_POSITIONS}) -> ()")
    for name in TABLES:
        found.append(
            f"{name}(Tensor[] tensors, Tensor cos, Tensor sin, str rope, int token_dim=-3) "
            f"-> Tensor[]"
        )
        found.append(
            f"{name}_(Tensor(a!)[] tensors, Tensor cos, Tensor sin, str rope, "
            f"Tensor? positions=None, int token_dim=-3) -> ()"
        )
    found.append("frequencies_like(Tensor like, str rope) -> Tensor")
    found.append(
        "position_gradient(Tensor[] tensors, Tensor[] grads, str rope, str pairing, "
        "int token_dim=-3) -> Tensor"
    )
    return found


# ---- Shapes --------------------------------------------------------------------------------------


def _dense_strides(x: Tensor) -> list[Any]:
    """Of a result: without gaps, with dimensions in the order of those of `x`."""
    strides = list(x.stride())
    order: list[int] = []
    for i in range(x.dim()):
        at = i
        while at > 0 and strides[order[at - 1]] < strides[i]:
            at -= 1
        order.insert(at, i)
    dense: list[Any] = [0] * x.dim()
    following: Any = 1
    for i in reversed(order):
        dense[i] = following
        following = following * x.shape[i]
    return dense


def _result_like(x: Tensor) -> Tensor:
    if x.dim() > 4:
        return x.new_empty(x.shape)
    return x.new_empty_strided(x.shape, _dense_strides(x))


def _check_rank(name: str, x: Tensor, token_dim: int) -> None:
    if token_dim not in (-3, -2):
        raise ValueError(f"[{name}] token_dim must be -3 or -2, got {token_dim}")
    if x.dim() < 3:
        raise ValueError(
            f"[{name}] a tensor must have tokens, heads and head_dim, got {x.dim()} dimensions"
        )


def _fake_rotation(name: str) -> Callable[..., Any]:
    def fake(
        tensors: Sequence[Tensor],
        rope: str,
        positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        first: Any = 0,
        token_dim: int = -3,
    ) -> list[Tensor]:
        head_dim = layout_of(rope).head_dim
        for x in tensors:
            _check_rank(name, x, token_dim)
            torch._check_value(
                x.shape[-1] == head_dim,
                lambda: f"[{name}] the last size must be head_dim {head_dim}",
            )
        return [_result_like(x) for x in tensors]

    return fake


def _fake_in_place(name: str) -> Callable[..., None]:
    def fake(tensors: Sequence[Tensor], rope: str, *rest: Any) -> None:
        for x in tensors:
            _check_rank(name, x, rest[3] if len(rest) > 3 else -3)

    return fake


def _fake_table(name: str) -> Callable[..., Any]:
    def fake(
        tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, rope: str, token_dim: int = -3
    ) -> list[Tensor]:
        for x in tensors:
            _check_rank(name, x, token_dim)
        return [_result_like(x) for x in tensors]

    return fake


def _fake_cached_table(name: str) -> Callable[..., None]:
    def fake(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, rope: str, *rest: Any) -> None:
        for x in tensors:
            _check_rank(name, x, rest[1] if len(rest) > 1 else -3)

    return fake


def _fake_position_gradient(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    rope: str,
    pairing: str,
    token_dim: int = -3,
) -> Tensor:
    x = tensors[0]
    batch: Any = 1
    for size in x.shape[:-3]:
        batch = batch * size
    return x.new_empty((layout_of(rope).axes, batch, x.shape[token_dim]), dtype=torch.float64)


def _fake_frequencies_like(like: Tensor, rope: str) -> Tensor:
    layout = layout_of(rope)
    return like.new_empty((layout.pairs, layout.axes), dtype=torch.float64)


def _autograd_cached_table(operators: Any, name: str) -> Callable[..., None]:
    """An inference cache has no gradient."""
    op = getattr(operators.ops, name + "_").default

    def autograd(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, *rest: Any) -> None:
        if needs_derivative(tensors, cos, sin):
            raise ValueError(
                f"[{name}_] has no gradient: use rotate_table for tensors that need one"
            )
        below_autograd(op, tensors, cos, sin, *rest)
        torch.autograd.graph.increment_version(tensors)

    return autograd


# ---- Loading -------------------------------------------------------------------------------------


def _refuse(*args: Any) -> Any:
    """A direct call that is always left to the dispatcher."""
    return NotImplemented


def _takes(from_handle: Any, to_handle: Any) -> bool:
    """Whether from_handle takes the reference of the handle, as its name says; it takes a second
    one up to PyTorch 2.15."""
    x = torch.empty(1)
    alive = weakref.ref(x)
    from_handle(to_handle(x))
    del x
    return alive() is None


def _address(library: str, name: str) -> int:
    """Of a function of a library that PyTorch has loaded; 0 if it has none. The linker would not
    find it: Python loads PyTorch's libraries for PyTorch's own module alone."""
    try:
        loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD)
        return ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0


def _cpp_functions() -> tuple[int, ...]:
    """CppFunctions of pytorch/stable/python_arguments.h: addresses, and numbers of dispatch keys.
    All that say whether the dispatcher has to see a call are 0 if one of them is missing."""
    wrap = _address("libtorch_python.so", "_Z16THPVariable_WrapON2at10TensorBaseE")
    questions = (
        _address("libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
        _address("libtorch_cpu.so", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
        _address("libtorch_cpu.so", "_ZN2at12hasCallbacksEv"),
        _address("libc10.so", "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"),
    )
    names = ("Tracer", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode")
    try:
        keys = tuple(int(torch._C._dispatch_key_parse(name).value) for name in names)
    except (AttributeError, RuntimeError, TypeError):
        keys = ()
    if 0 in questions or not keys:
        return (wrap, *(0 for _ in (*questions, *names)))
    return wrap, *questions, *keys


def direct_calls(library: Path) -> dict[str, Callable[..., Any]]:
    """Functions of the library that go around the dispatcher (pytorch/stable/python_calls.cc). None
    where this PyTorch or this Python has not all that they use, which is not in the stable ABI."""
    calls: dict[str, Callable[..., Any]] = defaultdict(lambda: _refuse)
    try:
        exchange = torch.Tensor.__dlpack_c_exchange_api__
        handles = torch._C._aoti
        from_handle = handles.alloc_tensor_by_stealing_from_void_ptr
        needs_dispatcher = (
            torch._C._are_functorch_transforms_active,
            torch._C._len_torch_dispatch_stack,
            torch._C._len_torch_function_stack,
            torch._C._is_tracing,
            torch._C._autograd._profiler_enabled,
        )
        load = ctypes.PyDLL(str(library)).rotary_torch_calls
        given = (
            torch.Tensor, torch.nn.Parameter, exchange,
            from_handle, _takes(from_handle, handles.unsafe_alloc_void_ptr_from_tensor),
            torch._C._increment_version, needs_dispatcher, vars(torch.autograd.forward_ad),
            vars(torch._C.TensorBase)["requires_grad"], _cpp_functions(),
        )  # fmt: skip
    except (AttributeError, KeyError, TypeError):
        return calls
    # The limited API of Python with its lock is another one than without.
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return calls
    load.argtypes, load.restype = [ctypes.py_object] * len(given), ctypes.py_object
    module = load(*given)
    if module is not None:
        calls.update((k, v) for k, v in vars(module).items() if not k.startswith("__"))
    return calls


class Operators:
    """The library's operators, as torch.ops.<namespace>, and as functions of this object that go
    around the dispatcher where they can: less work for the host. These take a tuple of tensors and
    all arguments by position; one tensor gives one result, several give a tuple. They are not for
    code that torch.compile traces."""

    def __init__(self, path: Path, namespace: str) -> None:
        version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        if version < OLDEST:
            raise ImportError(f"rotary: {path.name} needs PyTorch 2.11, got {torch.__version__}")
        self._library = torch.library.Library(namespace, "FRAGMENT")
        for schema in schemas():
            self._library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        implement = ctypes.CDLL(str(path)).rotary_torch_implement
        implement.argtypes, implement.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_char_p
        stream = _address("libtorch_cuda.so", "aoti_torch_get_current_cuda_stream")
        error = implement(namespace.encode(), stream)
        if error:
            raise ImportError(f"rotary: {path.name}: {error.decode()}")
        self.ops = getattr(torch.ops, namespace)
        self.direct = direct_calls(path)
        self._register(namespace)
        for name in ROTATIONS:
            setattr(self, name, self._function(name, apply_rotation))
            setattr(self, f"{name}_", self._in_place(f"{name}_"))
        for name in TABLES:
            setattr(self, name, self._function(name, apply_table))
            setattr(self, f"{name}_", self._in_place(f"{name}_"))

    def _register(self, namespace: str) -> None:
        def add(name: str, fake: Callable[..., Any], autograd: Callable[..., Any]) -> None:
            torch.library.register_fake(f"{namespace}::{name}", fake, lib=self._library)
            self._library.impl(name, autograd, "Autograd")

        for name in ROTATIONS:
            add(name, _fake_rotation(name), autograd_rotation(self, name))
            add(f"{name}_", _fake_in_place(name), autograd_in_place(self, name))
        for name in TABLES:
            add(name, _fake_table(name), autograd_table(self, name))
            add(f"{name}_", _fake_cached_table(f"{name}_"), _autograd_cached_table(self, name))
        gradient = autograd_position_gradient(self)
        add("position_gradient", _fake_position_gradient, gradient)
        frequencies = self.ops.frequencies_like.default
        add("frequencies_like", _fake_frequencies_like, partial(below_autograd, frequencies))

    def _direct(self, name: str, fallback: Callable[..., Any]) -> Callable[..., Any]:
        """The direct call of an operator; fallback(refusal, *arguments) where it refuses."""
        if name not in self.direct:
            return partial(fallback, NotImplemented)
        function: Callable[..., Any] = self.direct["with_fallback"](name, fallback)
        return function

    def _function(self, name: str, apply: Callable[..., Any]) -> Callable[..., Any]:
        op = getattr(self.ops, name).default

        def fallback(refusal: Any, tensors: tuple[Tensor, ...], *rest: Any) -> Any:
            if refusal is None:
                results = apply(apply_plain, self, name, tensors, *rest)
            elif needs_derivative(tensors, *rest):
                results = op(tensors, *rest)
            else:
                results = below_autograd(op, tensors, *rest)
            return results[0] if len(tensors) == 1 else tuple(results)

        return self._direct(name, fallback)

    def _in_place(self, name: str) -> Callable[..., Any]:
        op = getattr(self.ops, name).default

        def fallback(refusal: Any, tensors: tuple[Tensor, ...], *rest: Any) -> Any:
            op(tensors, *rest)
            return tensors[0] if len(tensors) == 1 else tensors

        return self._direct(name, fallback)
