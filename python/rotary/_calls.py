# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Calls of the library: signatures for one tensor or several, and the memory, stream and device of
the arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from . import _core
from ._arrays import library_of, stream_handle

Array = TypeVar("Array")
Options = ParamSpec("Options")
Tensors = tuple[Any, ...]

#: call(ins, outs or None for in place, positions, stream)
Call = Callable[[Tensors, Any, _core.Positions, int], None]


class BoundCall(Protocol[Options]):
    """Type of a bound method for tensors: one tensor gives one result, several give a tuple."""

    @overload
    def __call__(self, x: Array, /, *args: Options.args, **options: Options.kwargs) -> Array: ...
    @overload
    def __call__(
        self, x: Array, y: Array, /, *args: Options.args, **options: Options.kwargs
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self, x: Array, y: Array, z: Array, /, *more: Array, **options: Any
    ) -> tuple[Array, ...]: ...


class TensorMethod(Protocol[Options]):
    """Type of a method for tensors, before it is bound."""

    def __get__(self, owner: Any, kind: Any = None) -> BoundCall[Options]: ...


def for_tensors(
    method: Callable[Concatenate[Any, Tensors, Options], Any],
) -> TensorMethod[Options]:
    """method(self, tensors, *, ...) as a method of any number of tensors: (self, *tensors, ...)."""

    @functools.wraps(method)
    def call(self: Any, *tensors: Any, **options: Any) -> Any:
        return cast(Any, method)(self, tensors, **options)

    signature = inspect.signature(method)
    parameters = [
        x.replace(kind=x.VAR_POSITIONAL) if x.name == "tensors" else x
        for x in signature.parameters.values()
    ]
    cast(Any, call).__signature__ = signature.replace(parameters=parameters)
    return cast(TensorMethod[Options], call)


def number_of(stream: Any) -> int | None:
    return None if stream is None else stream_handle(stream)


def new(call: Call, tensors: Sequence[Any], at: _core.Positions, stream: Any, out: Any) -> Any:
    """Out of place, into new arrays like the tensors, or into `out`."""
    if out is None:
        libraries = [library_of(x) for x in tensors]
        made = [library.empty_like(x) for library, x in zip(libraries, tensors)]
        run(call, tensors, made, at, stream)
        return _one_or_all([library.finish(x) for library, x in zip(libraries, made)])
    outs = out if isinstance(out, (tuple, list)) else (out,)
    run(call, tensors, outs, at, stream)
    for x in outs:
        library_of(x).after_write(x)
    return out


def in_place(call: Call, tensors: Sequence[Any], at: _core.Positions, stream: Any) -> Any:
    run(call, tensors, None, at, stream)
    for x in tensors:
        library_of(x).after_write(x)
    return _one_or_all(tensors)


def _one_or_all(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def run(
    call: Call, tensors: Sequence[Any], outs: Sequence[Any] | None, at: _core.Positions, stream: Any
) -> None:
    """Exports the arrays and calls, on the stream and the device of the first tensor."""
    if not tensors:
        raise TypeError("at least one tensor is needed")
    first = tensors[0]
    library = library_of(first)
    number = number_of(stream)
    if not library.is_cuda(first):
        call(*_exported(tensors, outs, None), at, 0)
        return
    with library.on_device(first):
        handle = library.current_stream(first) if number is None else number
        call(*_exported(tensors, outs, number), at, handle)


def _exported(
    tensors: Sequence[Any], outs: Sequence[Any] | None, stream: int | None
) -> tuple[tuple[Any, ...], Any]:
    def all_of(arrays: Sequence[Any], write: bool) -> tuple[Any, ...]:
        return tuple(library_of(x).export(x, stream, write) for x in arrays)

    if outs is None:
        return all_of(tensors, True), None
    return all_of(tensors, False), all_of(outs, True)
