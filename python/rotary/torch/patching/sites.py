# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Where a model rotates: which methods of which modules call which functions."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from .rebind import uses, wrapped_functions
from .shapes import ROTATES, ROTATES_INLINE, ROTATING_METHOD


@dataclass(frozen=True)
class Use:
    """A method of a class, and the functions of its file that it calls to rotate."""

    method: str
    file: str
    functions: tuple[str, ...]
    #: Functions by which it rotates without one that could be replaced.
    inline: tuple[str, ...] = ()
    #: The method itself rotates, and is static (RoFormer).
    static: bool = False


@dataclass(frozen=True)
class Site:
    """A module that rotates."""

    path: str
    module: nn.Module
    use: Use

    @property
    def label(self) -> str:
        return f"{self.path or 'the model'} ({type(self.module).__name__}.{self.use.method})"


def rotating_functions(file: str) -> dict[str, Callable[..., Any]]:
    """Functions of a modelling file that rotate, by their names."""
    scope = vars(sys.modules[file])
    return {n: f for n, f in scope.items() if ROTATES.search(n) and callable(f)}


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Functions of the class as an instance sees them; those of torch are left out."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in ("torch", "builtins"):
            continue
        for name, value in vars(base).items():
            if name not in seen:
                seen.add(name)
                yield name, value


def _inline(function: types.FunctionType, file: str) -> tuple[str, ...]:
    names = {n: None for n in vars(sys.modules[file]) if ROTATES_INLINE.match(n)}
    return tuple(sorted(uses(function, names, file)))


@cache
def uses_of(cls: type) -> tuple[Use, ...]:
    """How instances of the class rotate; nothing for most classes."""
    found = []
    for name, value in _methods(cls):
        function = value.__func__ if isinstance(value, staticmethod) else value
        if not isinstance(function, types.FunctionType):
            continue
        if ROTATING_METHOD.match(name):
            is_static = isinstance(value, staticmethod)
            itself = () if is_static else (name,)
            found.append(Use(name, function.__module__, (name,), itself, is_static))
            continue
        for file in {each.__globals__.get("__name__") for each in wrapped_functions(function)}:
            if file not in sys.modules:
                continue
            called = tuple(sorted(uses(function, rotating_functions(file), file)))
            inline = _inline(function, file)
            if called or inline:
                found.append(Use(name, file, called, inline))
    return tuple(found)


def sites_of(model: nn.Module) -> list[Site]:
    """Every module of the model that rotates."""
    return [
        Site(path, module, use)
        for path, module in model.named_modules()
        for use in uses_of(type(module))  # type: ignore[arg-type]
    ]
