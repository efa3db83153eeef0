# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Norms of queries and keys, in one pass with the rotation.

A method such as

    q, k = self.q_norm(q), self.k_norm(k)
    cos, sin = position_embeddings
    q, k = apply_rotary_pos_emb(q, k, cos, sin)

is given to the module anew with another name in place of q_norm and k_norm, that of a function that
returns its argument, and is called with a NormedTable in place of cos, from which the rotation has
the norms. Nothing is kept between the two, so that there is nothing to clean up after an exception,
and torch.compile, gradient checkpointing and threads need no care. The norms themselves, their
weights and their classes stay as they are.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from .kernel import NormedTable
from .norms import classify_norm, norm_operator
from .probe import random
from .rebind import names_in, rebuilt, twin_name, wrapped_functions
from .shapes import NORMS, Behaviour, Norm, Signature
from .sites import Site
from .tables import BATCH, TOKENS, Table

_POSITIONS = "position_embeddings"
#: The attribute that a method with fused norms calls in their place.
HANDS_ON = "rotary_hands_on"
_PROBES = ("rotary_probe_q", "rotary_probe_k")


def hand_on(x: Tensor) -> Tensor:
    return x


def norms_of(site: Site) -> tuple[str, str] | None:
    """Names of the norms of q and k that the method looks up."""
    if site.use.static:
        return None
    function = getattr(type(site.module), site.use.method)
    names = {
        name
        for each in wrapped_functions(function)
        if each.__globals__.get("__name__") == site.use.file
        for name in names_in(each.__code__)
    }
    for pair in NORMS:
        held = (getattr(site.module, name, None) for name in pair)
        if set(pair) <= names and all(isinstance(m, nn.Module) for m in held):
            return pair
    return None


def _method(site: Site) -> types.FunctionType:
    return getattr(type(site.module), site.use.method)  # type: ignore[no-any-return]


@cache
def fused_method(
    function: types.FunctionType, file: str, names: tuple[str, str], norm: Norm
) -> Callable[..., Any]:
    """One function for all modules of a class with such norms, so that torch.compile compiles it
    once. Called without cos and sin, it is the method with norms of its own."""
    scope = vars(sys.modules[twin_name(file)])
    plain = rebuilt(function, file, scope)
    fused = rebuilt(function, file, scope, dict.fromkeys(names, HANDS_ON))
    index = list(inspect.signature(function).parameters).index(_POSITIONS) - 1
    q_name, k_name = names

    def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        by_place = len(args) > index
        table = args[index] if by_place else kwargs.get(_POSITIONS)
        if not isinstance(table, (tuple, list)) or len(table) != 2:
            return plain(self, *args, **kwargs)
        cos, sin = table
        norms = (getattr(self, q_name), getattr(self, k_name))
        given = (NormedTable(cos, norms, norm), sin)
        if by_place:
            return fused(self, *args[:index], given, *args[index + 1 :], **kwargs)
        return fused(self, *args, **{**kwargs, _POSITIONS: given})

    method.__name__ = function.__name__
    method.__qualname__ = function.__qualname__
    method.__doc__ = function.__doc__
    method.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return method


class _Trace:
    """What a method calls, in its order."""

    def __init__(self, site: Site, names: tuple[str, str]) -> None:
        self.calls: list[tuple[str, list[Tensor], list[Tensor]]] = []
        self.norms = {name: getattr(site.module, name) for name in names}

    def norm(self, name: str) -> Callable[[Tensor], Tensor]:
        def call(x: Tensor) -> Tensor:
            y: Tensor = self.norms[name](x)
            self.calls.append((name, [x], [y]))
            return y

        return call

    def rotation(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            names = list(inspect.signature(apply).parameters)
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            results = apply(*args, **kwargs)
            self.calls.append(("", [given["q"], given["k"]], list(results)))
            return results

        return call


def _is_view(x: Tensor, of: Tensor) -> bool:
    return (
        x.untyped_storage().data_ptr() == of.untyped_storage().data_ptr()
        and x.data_ptr() == of.data_ptr()
        and x.numel() == of.numel()
    )


def _scope_of(norm_side: Tensor, rotation_side: Tensor) -> str | None:
    """Which elements share a norm, given the tensor of both as the norm and the rotation see it, as
    [batch, heads, tokens, head_dim]."""
    batch, heads, tokens, head_dim = rotation_side.shape
    if norm_side.shape[-1] == head_dim:
        return "head"
    if norm_side.shape == (batch, tokens, heads * head_dim):
        return "all_heads"
    return None


def _read(calls: list[tuple[str, list[Tensor], list[Tensor]]], names: tuple[str, str]) -> Any:
    """(scope, order) of the calls, or why they cannot be one."""
    called = [name for name, _, _ in calls]
    if "" not in called:
        return "it does not rotate in this layer"
    if sorted(called) != sorted(["", *names]):
        return "it calls norms or rotation more than once"
    found = {name: (given, results) for name, given, results in calls}
    order = "after" if called[0] == "" else "before"
    if called[1] == "":
        return "it rotates between the two norms"
    scopes = set()
    for i, name in enumerate(names):
        from_norm = found[name][0][0] if order == "after" else found[name][1][0]
        in_rotation = found[""][1][i] if order == "after" else found[""][0][i]
        if in_rotation.dim() != 4 or not _is_view(from_norm, in_rotation):
            return "it rotates other tensors than those of the norms"
        scopes.add(_scope_of(from_norm, in_rotation))
    if len(scopes) != 1 or None in scopes or (order == "after" and scopes != {"head"}):
        return "its norms are neither of a head nor of all heads"
    return scopes.pop(), order


def _arguments(site: Site, table: Table) -> dict[str, Any] | str:
    """What to call the method with."""
    parameters = inspect.signature(_method(site)).parameters
    if _POSITIONS not in parameters:
        return f"it has no {_POSITIONS}"
    projection = getattr(site.module, "q_proj", None)
    size = getattr(projection, "in_features", None)
    size = size or getattr(getattr(site.module, "config", None), "hidden_size", None)
    floating = [p for p in site.module.parameters() if p.is_floating_point()]
    if not isinstance(size, int) or not floating:
        return "the size of its input is not known"
    like = floating[0]
    if like.is_meta:
        return "it is on meta"
    x = random((BATCH, TOKENS, size), 71).to(like.device, like.dtype)
    cos, sin = (t.to(like.device, like.dtype) for t in (table.cos, table.sin))
    given: dict[str, Any] = {"hidden_states": x, "attention_mask": None, _POSITIONS: (cos, sin)}
    for name, p in list(parameters.items())[1:]:
        optional = p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if name not in given and not optional:
            return f"it needs {name}"
    return {name: value for name, value in given.items() if name in parameters}


def _first_tensor(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def _run(method: Callable[..., Any], site: Site, given: dict[str, Any]) -> Tensor:
    device = given["hidden_states"].device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(0)  # dropout, in training
        return _first_tensor(method(site.module, **given))


def fusible(
    site: Site,
    names: tuple[str, str],
    signature: Signature,
    behaviour: Behaviour,
    table: Table,
) -> Norm | str:
    """The norms of a module that rotates, or why they are not fused. Calls the module's method, on
    a few random tokens."""
    if norm_operator() is None:
        return "this library of rotary has no norms"
    if signature.tensors != ("q", "k") or signature.kind != "cos, sin":
        return "it does not rotate queries and keys in one call"
    if behaviour.tokens == "last" or len(site.use.functions) != 1:
        return "it rotates in several steps"
    norms = [classify_norm(getattr(site.module, name)) for name in names]
    if norms[0] != norms[1] or isinstance(norms[0], str):
        reason = next((n for n in norms if isinstance(n, str)), "norms of q and k differ")
        return reason
    given = _arguments(site, table)
    if isinstance(given, str):
        return given
    try:
        return _try(site, names, norms[0], given)
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        line = (str(error).splitlines() or [""])[0]
        return f"a call on random tokens fails ({type(error).__name__}: {line})"


def _try(site: Site, names: tuple[str, str], norm: Norm, given: dict[str, Any]) -> Norm | str:
    """Follows q and k from the norms to the rotation, and compares the results of the method with
    norms apart and fused."""
    file, module, function = site.use.file, site.module, _method(site)
    scope = vars(sys.modules[twin_name(file)])
    rotation = site.use.functions[0]
    trace = _Trace(site, names)
    traced = rebuilt(
        function,
        file,
        {**scope, rotation: trace.rotation(scope[rotation])},
        dict(zip(names, _PROBES, strict=True)),
    )
    added = {name: trace.norm(own) for name, own in zip(_PROBES, names, strict=True)}
    added[HANDS_ON] = hand_on
    try:
        for name, value in added.items():
            object.__setattr__(module, name, value)
        expected = _run(traced, site, given)
        read = _read(trace.calls, names)
        if isinstance(read, str):
            return read
        norm = replace(norm, scope=read[0], order=read[1])
        found = _run(fused_method(function, file, names, norm), site, given)
    finally:
        for name in added:
            vars(module).pop(name, None)
    error = (expected.double() - found.double()).abs().max() / expected.double().abs().max()
    tolerance = 1e-5 if expected.dtype in (torch.float32, torch.float64) else 3e-2
    if not error.item() < tolerance:
        return f"its result differs by {error.item():.1e} with norms that are fused"
    return norm


def layer_key(module: nn.Module, names: tuple[str, str]) -> tuple[Any, ...]:
    """Equal for layers whose methods take the same steps: those with equal settings and norms,
    whatever their weights."""
    norms = tuple(classify_norm(getattr(module, name)) for name in names)
    plain = (int, float, str, bool, type(None))
    settings = {n: v for n, v in vars(module).items() if isinstance(v, plain) and n != "layer_idx"}
    children = tuple((n, type(m)) for n, m in module.named_children())
    return type(module), norms, tuple(sorted(settings.items())), children
