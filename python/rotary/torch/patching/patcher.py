# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A loaded transformers model, rotated by rotary's kernels.

    report = rotary.torch.patch(model)
    print(report)             # what was replaced, and how far it is from the model's own
    report.undo()

Only this model changes: its class and other models of it stay as they are. Everything is checked
before anything is replaced.
"""

from __future__ import annotations

import sys
import types
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import nn

from . import exact
from .fusion import HANDS_ON, fused_method, fusible, hand_on, layer_key, norms_of
from .kernel import is_stand_in, stand_in
from .probe import arguments, classify, difference, random, signature_of
from .rebind import rebuilt, twin, twin_name, uses, wrapped_functions
from .report import Patch, Replaced
from .shapes import TOLERANCE, Behaviour, Norm, Signature
from .sites import Site, rotating_functions, sites_of
from .tables import BATCH, TOKENS, Table, layer_types, makes_tables, rotary_modules, table_of

Angles = Literal["model", "exact"]
Norms = Literal["fused", "own"]


@dataclass(frozen=True)
class Known:
    """A function that rotates, understood."""

    original: Callable[..., Any]
    replacement: Callable[..., Any]
    signature: Signature
    #: None for a function that calls another one of its file to rotate.
    behaviour: Behaviour | None


@cache
def _known(function: types.FunctionType) -> Known | str:
    found = classify(function)
    if isinstance(found, str):
        return found
    signature, behaviour = found
    return Known(function, stand_in(function, signature, behaviour), signature, behaviour)


def _function_of(use_file: str, name: str, site: Site) -> Any:
    if site.use.static:
        return getattr(type(site.module), name)
    return vars(sys.modules[use_file])[name]


def _refuse(site_label: str, why: str) -> ValueError:
    return ValueError(
        f"[patch] {site_label}: {why}. Nothing was replaced. A part of the model that is known can "
        f"be patched alone, as in patch(model.language_model)"
    )


class _Plan:
    """What will be replaced in a model, once all of it is known to be right."""

    def __init__(self, model: nn.Module) -> None:
        self.sites = sites_of(model)
        self.tables = _tables_of(model)
        self.functions: dict[tuple[str, str], Known] = {}
        self.worst: dict[tuple[str, str], float] = defaultdict(float)
        self.rotary_dims: dict[tuple[str, str], int] = {}
        #: By label of the site: the norms of q and k that are fused, or why they are not.
        self.norms: dict[str, Norm | str] = {}

    def check(self, model: nn.Module) -> None:
        if not self.sites:
            raise ValueError(
                f"[patch] {type(model).__name__} calls no function that is known to rotate queries "
                f"and keys. Nothing was replaced"
            )
        for site in self.sites:
            self._check_site(site)
        served: set[str] = set()
        for site in self.sites:
            served |= self._check_tables(site)
        for path, module in rotary_modules(model):
            if path not in served and makes_tables(module):
                label = f"{path} ({type(module).__name__})"
                raise _refuse(label, "its cos and sin go to code that is not known")

    def _check_site(self, site: Site) -> None:
        if _replaced_attributes(site):
            raise ValueError(f"[patch] {site.label} is patched already: undo that first")
        if site.use.inline:
            raise _refuse(site.label, f"it rotates by itself ({', '.join(site.use.inline)})")
        _bound_methods(site)
        for name in site.use.functions:
            key = (site.use.file, name)
            if key not in self.functions:
                self.functions[key] = self._understand(site, name)

    def _understand(self, site: Site, name: str) -> Known:
        function = _function_of(site.use.file, name, site)
        if not isinstance(function, types.FunctionType):
            raise _refuse(site.label, f"{name} was replaced already, by {function!r}")
        known = _known(function)
        if isinstance(known, Known):
            return known
        composed = self._composed(site, function)
        if composed is None:
            raise _refuse(site.label, f"{name} is not known: {known}")
        return composed

    def _composed(self, site: Site, function: types.FunctionType) -> Known | None:
        """A function that rotates by calling a known function of its file."""
        file = site.use.file
        others = {n: f for n, f in rotating_functions(file).items() if f is not function}
        inner = {n: _known(others[n]) for n in uses(function, others, file)}
        signature = signature_of(function)
        if signature is None or not inner or any(isinstance(k, str) for k in inner.values()):
            return None
        replacements = {n: k.replacement for n, k in inner.items() if isinstance(k, Known)}
        new = rebuilt(function, file, {**vars(sys.modules[file]), **replacements})
        for name, known in inner.items():
            self.functions[(file, name)] = known  # type: ignore[assignment]
        return Known(function, new, signature, None)

    def _check_tables(self, site: Site) -> set[str]:
        """Holds the functions of a site against the tables that reach it. Gives their modules."""
        near = _nearest(site.path, self.tables)
        for name in site.use.functions:
            key = (site.use.file, name)
            if key in self.rotary_dims:
                continue
            known = self.functions[key]
            for table in near or [_own_table(known, site)]:
                self._check_table(site, key, known, table)
        return {table.path for table in near}

    def _check_table(self, site: Site, key: tuple[str, str], known: Known, table: Table) -> None:
        error = _compare(known, table)
        if not error < TOLERANCE:
            raise _refuse(
                site.label,
                f"{key[1]} on the cos and sin of {table.name or 'the model'} differs from the "
                f"kernel by {error:.1e} of the largest element",
            )
        columns = table.cos.shape[-1]
        pairs = columns // 2 if known.behaviour is None else known.behaviour.pairs(columns)
        self.worst[key] = max(self.worst[key], error)
        self.rotary_dims[key] = max(self.rotary_dims.get(key, 0), 2 * pairs)

    def make_twins(self) -> None:
        by_file: dict[str, dict[str, Callable[..., Any]]] = defaultdict(dict)
        for (file, name), known in self.functions.items():
            if known.behaviour is not None:
                by_file[file][name] = known.replacement
        for file, functions in by_file.items():
            twin(file, functions)

    def fuse_norms(self) -> None:
        """Finds the norms of q and k that are fused with the rotation."""
        found: dict[tuple[Any, ...], Norm | str] = {}
        for site in self.sites:
            names = norms_of(site)
            if names is None or not site.use.functions:
                continue
            key = (site.use, layer_key(site.module, names))
            if key not in found:
                known = self.functions[(site.use.file, site.use.functions[0])]
                near = _nearest(site.path, self.tables)
                if known.behaviour is None or not near:
                    found[key] = "its rotation is made of several functions"
                else:
                    found[key] = fusible(site, names, known.signature, known.behaviour, near[0])
            self.norms[site.label] = found[key]

    def apply(self) -> None:
        for site in self.sites:
            norm = self.norms.get(site.label)
            _rebind(site, self.functions, norm if isinstance(norm, Norm) else None)

    def replaced(self) -> tuple[Replaced, ...]:
        groups: dict[tuple[str, str, str], list[Site]] = defaultdict(list)
        for site in self.sites:
            for name in site.use.functions:
                groups[(site.use.file, name, type(site.module).__name__)].append(site)
        return tuple(self._row(key[:2], sites) for key, sites in groups.items())

    def _row(self, key: tuple[str, str], sites: list[Site]) -> Replaced:
        file, name = key
        known = self.functions[key]
        module = sites[0].module
        pairing = "parts of other functions" if known.behaviour is None else str(known.behaviour)
        return Replaced(
            function=f"{file.split('.')[-1]}.{name}",
            caller=type(module).__name__,
            layers=len(sites),
            family=getattr(getattr(module, "config", None), "model_type", ""),
            pairing=pairing,
            rotary_dim=self.rotary_dims[key],
            head_dim=_head_dim(module),
            difference=self.worst[key],
            **self._norms(sites),
        )

    def _norms(self, sites: list[Site]) -> dict[str, Any]:
        found = [self.norms[site.label] for site in sites if site.label in self.norms]
        fused = [norm for norm in found if isinstance(norm, Norm)]
        return {
            "norm": str(fused[0]) if fused else "",
            "fused": len(fused),
            "kept": tuple(dict.fromkeys(norm for norm in found if isinstance(norm, str))),
        }


def _head_dim(module: nn.Module) -> int:
    names = ("qk_rope_head_dim", "head_dim", "attention_head_size", "head_size")
    values = (getattr(module, name, None) for name in names)
    return next((v for v in values if isinstance(v, int)), 0)


def _tables_of(model: nn.Module) -> list[Table]:
    tables = []
    for path, module in rotary_modules(model):
        if not makes_tables(module):
            continue
        for layer_type in layer_types(module):
            if any(b.is_meta for b in module.buffers(recurse=False)):
                raise _refuse(f"{path} ({type(module).__name__})", "its buffers are on meta")
            table = table_of(path, module, layer_type)
            if table is None:
                label = f"{path} ({type(module).__name__})"
                raise _refuse(label, "it makes cos and sin in no way that is known")
            tables.append(table)
    return tables


def _nearest(path: str, tables: list[Table]) -> list[Table]:
    """The tables of the rotary modules that share most of their path with the site."""
    steps = path.split(".")

    def shared(table: Table) -> int:
        parents = table.path.split(".")[:-1]
        if table.path.split(".")[-1].isdigit():  # one of a list
            parents = parents[:-1]
        count = 0
        while count < min(len(steps), len(parents)) and steps[count] == parents[count]:
            count += 1
        return count if count == len(parents) else -1

    best = max((shared(table) for table in tables), default=-1)
    return [table for table in tables if best >= 0 and shared(table) == best]


def _own_table(known: Known, site: Site) -> Table:
    """Random cos and sin, for models that keep them without a module. Only where a row holds each
    number once: otherwise how the model lays it out would be guessed."""
    if known.behaviour is None or known.behaviour.columns != "single":
        raise _refuse(site.label, "no module was found that makes its cos and sin")
    rotary_dim = getattr(site.module, "rotary_dim", None) or _head_dim(site.module) or 16
    cos, sin = (random((BATCH, TOKENS, rotary_dim // 2), seed) for seed in (21, 22))
    return Table("", None, cos, sin, torch.arange(TOKENS), "bt", is_complex=False)


@torch.no_grad()
def _compare(known: Known, table: Table) -> float:
    """The largest difference between a function and its replacement on the model's own table."""
    columns, behaviour = table.cos.shape[-1], known.behaviour
    head_dim = columns if behaviour is None else 2 * behaviour.pairs(columns)
    if behaviour is not None and behaviour.part != "whole":
        head_dim += 8
    parameters = known.original.__code__.co_varnames[: known.original.__code__.co_argcount]
    more: dict[str, Any] = {}
    if "position_ids" in parameters:
        more["position_ids"] = table.positions
    token_dim = -2 if behaviour is None else behaviour.token_dim
    if "unsqueeze_dim" in parameters:
        token_dim = -2
        more["unsqueeze_dim"] = table.cos.dim() - 2
    tensors = [
        random((BATCH, heads, TOKENS, head_dim), seed=31 + heads)
        for heads in (3, 2)[: len(known.signature.tensors)]
    ]
    if token_dim == -3:
        tensors = [x.transpose(1, 2) for x in tensors]
    cos, sin = table.cos, table.sin
    if known.signature.kind == "sin|cos":
        cos, sin = cos[:1], sin[:1]
    given = arguments(known.signature, tensors, cos, sin, **more)
    return difference(known.original(**given), known.replacement(**given))


def _bound_methods(site: Site) -> list[str]:
    """Attributes of the module that hold the method: its own name, unless a library that wraps
    forward (accelerate) has put the method elsewhere."""
    own = vars(site.module)
    if site.use.method not in own:
        return [site.use.method]
    original = getattr(type(site.module), site.use.method)
    held = [n for n, v in own.items() if getattr(v, "__func__", None) is original]
    if not held:
        raise _refuse(site.label, "the module has a method of its own in that place")
    return held


def _rebind(site: Site, functions: dict[tuple[str, str], Known], norm: Norm | None) -> None:
    for name in _bound_methods(site):
        if site.use.static:
            new: Any = functions[(site.use.file, site.use.method)].replacement
        elif norm is not None and (names := norms_of(site)) is not None:
            function = getattr(type(site.module), site.use.method)
            fused = fused_method(function, site.use.file, names, norm)
            object.__setattr__(site.module, HANDS_ON, hand_on)
            new = types.MethodType(fused, site.module)
        else:
            function = getattr(type(site.module), site.use.method)
            new = types.MethodType(_rebuilt(function, site.use.file), site.module)
        object.__setattr__(site.module, name, new)


@cache
def _rebuilt(function: types.FunctionType, file: str) -> types.FunctionType:
    """One function for all modules of a class, so that torch.compile compiles it once."""
    return rebuilt(function, file, vars(sys.modules[twin_name(file)]))


def _is_replacement(value: Any, file: str) -> bool:
    function = getattr(value, "__func__", value)
    if not isinstance(function, types.FunctionType):
        return False
    scopes = (each.__globals__.get("__name__") for each in wrapped_functions(function))
    return is_stand_in(function) or twin_name(file) in scopes


def _replaced_attributes(site: Site) -> list[str]:
    """Attributes of the module by which it rotates on the kernel."""
    own = vars(site.module).items()
    return [name for name, value in own if _is_replacement(value, site.use.file)]


def undo(model: nn.Module) -> None:
    """Leaves every module of the model as its class has it. Also for copies of a patched model."""
    for module in model.modules():
        exact.undo(module)
    for site in sites_of(model):
        vars(site.module).pop(HANDS_ON, None)
        for name in _replaced_attributes(site):
            del vars(site.module)[name]
            if name != site.use.method:  # where another library keeps it
                method = getattr(type(site.module), site.use.method)
                object.__setattr__(site.module, name, types.MethodType(method, site.module))


def patch(model: nn.Module, *, angles: Angles = "model", norms: Norms = "fused") -> Patch:
    """Rotates queries and keys of a transformers model by rotary's kernels.

    angles: "model" takes the model's own cos and sin, so that results stay what they were (float32
    to about 1e-6, bfloat16 and float16 to about one unit in the last place, as the kernel rounds
    once where the model's own code rounds three times). "exact" makes them of exact angles, from
    the model's config: for contexts beyond 100,000 positions.

    norms: "fused" normalises queries and keys in one pass with their rotation, where the kernels
    have the model's norm and both stand side by side; the report says where. The bits are those of
    the model's norm, then the rotation. "own" leaves norms to the model, as torch.vmap needs it.

    Before anything is replaced every function is compared with its replacement, on random queries
    and keys and on the cos and sin that the model makes. Raises ValueError, and leaves the model as
    it was, where a function is not known or differs.

    Works with torch.compile, generate(), gradients, gradient checkpointing, .to(), save_pretrained
    and copies (deepcopy). Results have the type of queries and keys, also under autocast.
    """
    if angles not in ("model", "exact"):
        raise ValueError(f'[patch] angles must be "model" or "exact", got {angles!r}')
    if norms not in ("fused", "own"):
        raise ValueError(f'[patch] norms must be "fused" or "own", got {norms!r}')
    plan = _Plan(model)
    plan.check(model)
    plan.make_twins()
    if norms == "fused":
        plan.fuse_norms()
    tables = exact.prepare(model, plan.tables) if angles == "exact" else {}
    plan.apply()
    for path, (module, forward) in tables.items():
        exact.install(module, path, forward)
    return Patch(plan.replaced(), angles, tuple(tables), lambda: undo(model))
