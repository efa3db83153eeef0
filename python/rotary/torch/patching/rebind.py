# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Methods that see other functions under the names of their modelling file.

A modelling file has a twin: a module with the same names, of which those that rotate are on the
kernel. A method is given to one instance anew, with the twin for its globals. So only that instance
changes, its class stays, and what it is called with does not matter.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def names_in(code: types.CodeType) -> Iterator[str]:
    """Every name that the code, or a function inside it, looks up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def wrapped_functions(function: types.FunctionType) -> Iterator[types.FunctionType]:
    """The function, and those that it holds on to: what decorators were given."""
    yield function
    for cell in function.__closure__ or ():
        held = _content(cell)
        if isinstance(held, types.FunctionType) and held is not function:
            yield from wrapped_functions(held)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def uses(function: types.FunctionType, names: Mapping[str, Any], file: str) -> set[str]:
    """Which of a modelling file's names the function looks up."""
    found: set[str] = set()
    for each in wrapped_functions(function):
        if each.__globals__.get("__name__") == file:
            found |= set(names) & set(names_in(each.__code__))
    return found


def renamed(code: types.CodeType, names: Mapping[str, str]) -> types.CodeType:
    """The code, which looks up other names."""
    constants = tuple(
        renamed(c, names) if isinstance(c, types.CodeType) else c for c in code.co_consts
    )
    return code.replace(co_names=tuple(names.get(n, n) for n in code.co_names), co_consts=constants)


def rebuilt(
    function: types.FunctionType,
    file: str,
    scope: dict[str, Any],
    names: Mapping[str, str] | None = None,
) -> types.FunctionType:
    """The function with `scope` for its globals, inside its decorators too. `names` are those that
    it looks up in place of others."""
    closure = tuple(
        _rebuilt_cell(cell, function, file, scope, names) for cell in function.__closure__ or ()
    )
    inside = function.__globals__.get("__name__") == file
    new = types.FunctionType(
        renamed(function.__code__, names) if inside and names else function.__code__,
        scope if inside else function.__globals__,
        function.__name__,
        function.__defaults__,
        closure or None,
    )
    new.__kwdefaults__ = function.__kwdefaults__
    new.__dict__.update(function.__dict__)
    for name in ("__doc__", "__module__", "__qualname__", "__annotations__"):
        setattr(new, name, getattr(function, name))
    return new


def _rebuilt_cell(
    cell: types.CellType,
    owner: types.FunctionType,
    file: str,
    scope: dict[str, Any],
    names: Mapping[str, str] | None,
) -> types.CellType:
    held = _content(cell)
    if not isinstance(held, types.FunctionType) or held is owner:
        return cell
    if all(each.__globals__.get("__name__") != file for each in wrapped_functions(held)):
        return cell
    return types.CellType(rebuilt(held, file, scope, names))


_REPLACED = "__replaced__"


def twin_name(file: str) -> str:
    return f"{file}_on_rotary"


def twin(file: str, replacements: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """The globals of the modelling file's twin, with `replacements` and those that models have
    asked for before. Functions of the file that call what is replaced call the replacement.

    It can be imported under its name, as torch.compile does with a function's globals."""
    name = twin_name(file)
    module = sys.modules.get(name) or types.ModuleType(name)
    original = vars(sys.modules[file])
    scope = vars(module)
    replacements = {**scope.get(_REPLACED, {}), **replacements}
    scope.update({k: v for k, v in original.items() if k not in ("__name__", "__spec__")})
    scope.update(replacements)
    scope[_REPLACED] = replacements
    for key, value in original.items():
        if key in replacements or not isinstance(value, types.FunctionType):
            continue
        if uses(value, replacements, file):
            scope[key] = rebuilt(value, file, scope)
    sys.modules[name] = module
    return scope
