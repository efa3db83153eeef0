# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds rotary buffers of a model that are not what its config says, and kernels that rotate
wrongly.

    print(rotary.torch.check(model))

inv_freq is a buffer, so .half(), .to(bfloat16) and to_empty() change it, and nothing complains:
output stays fluent and positions blur. Here the frequencies are made anew, in float64, from the
config, and compared. A rotation that Hugging Face `kernels` has replaced is compared with the
model's own, with its gradients (kernelized.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .exact import model_rope
from .kernelized import kernelized_rotations, problem_of
from .tables import frequency_buffers, rotary_modules

#: Relative error of frequencies that float32 code may have: a power and a division.
_TOLERANCE = 5e-6
#: Phase error, in radians, of tables of cos and sin; bfloat16 tables are within 4e-3.
_TABLE_TOLERANCE = 1e-2
#: Where neither config nor rope says how many positions there are.
_CONTEXT = 4096

_NOTHING_LIKE = "is nothing like the config's, as memory that was never initialised"


@dataclass(frozen=True)
class Finding:
    """A buffer, or a scale, that is not what the config says, or a kernel that rotates wrongly."""

    #: As in "model.rotary_emb.inv_freq".
    name: str
    #: What seems to have happened.
    problem: str
    #: Largest phase error of any pair, in radians (at most pi), at the last position of context.
    phase_error: float
    context: int
    #: What cos and sin are multiplied by, and what they should be.
    scale: float = 1.0
    expected_scale: float = 1.0
    #: Of a kernel: largest difference from the model's own, in units of the largest element.
    difference: float = 0.0

    @property
    def turns(self) -> float:
        """The phase error in turns, at most half a turn."""
        return self.phase_error / (2 * math.pi)

    def __str__(self) -> str:
        if self.difference:
            effect = f"it differs by {self.difference:.2g} of the largest element"
        elif self.scale != self.expected_scale:
            effect = (
                f"cos and sin are {self.scale / self.expected_scale:.4g} times what they should be"
            )
        else:
            effect = (
                f"phase error {self.phase_error:.2g} rad ({self.turns:.2g} turns) "
                f"at position {self.context - 1:,}"
            )
        return f"{self.name}: {self.problem}; {effect}"


class Findings(list[Finding]):
    """The findings, none for a healthy model; `unchecked` lists what could not be checked."""

    def __init__(
        self, found: list[Finding], checked: int, unchecked: dict[str, str], kernels: int = 0
    ) -> None:
        super().__init__(found)
        self.checked = checked
        #: How many rotations were found that `kernels` has replaced.
        self.kernels = kernels
        self.unchecked = unchecked

    def __repr__(self) -> str:
        kernels = f" and {self.kernels} kernelized rotations" if self.kernels else ""
        head = f"{self.checked} rotary buffers{kernels} checked, {len(self)} wrong"
        lines = [head] + [f"  {finding}" for finding in self]
        lines += [f"  {name}: not checked, {why}" for name, why in self.unchecked.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Expected:
    """Expected values of a rope, for one regime of its context."""

    frequencies: Tensor
    scale: float


def _ladder(frequencies: Any, count: int) -> Tensor | None:
    """The frequencies as a buffer of `count` entries has them: one for each pair, or one for each
    pair of one axis where axes share them. Without sign: a model that rotates backward (nanochat)
    does so in its code. Several axes: the fastest first, as code that assigns them to axes keeps
    them.
    """
    values = torch.tensor(frequencies.values, dtype=torch.float64).abs()
    if frequencies.axes == 1:
        return values[:, 0] if len(values) == count else None
    ladder = values.sum(-1) if len(values) == count else values[values[:, 0] != 0, 0]
    if float(ladder.max()) > 6:  # positions are in turns, the buffer is without 2 pi (DINOv3)
        ladder = ladder / (2 * math.pi)
    return ladder.sort(descending=True).values if len(ladder) == count else None


def _regimes(rope: Any, module: nn.Module) -> list[int]:
    """Numbers of positions for which a module may hold frequencies."""
    from rotary.rope import depends_on_context

    if not depends_on_context(rope.recipe):
        return [0]
    cached = getattr(module, "max_seq_len_cached", 0)  # a tensor once the model has run
    return [0, rope.context.extended, int(cached)]


def _expected(rope: Any, module: nn.Module, count: int) -> list[_Expected]:
    found = []
    for context in dict.fromkeys(_regimes(rope, module)):
        frequencies = rope.make_frequencies(context)
        ladder = _ladder(frequencies, count)
        if ladder is not None:
            found.append(_Expected(ladder, float(frequencies.scale)))
    return found


def _error(found: Tensor, expected: Tensor) -> float:
    """The largest relative error."""
    if not found.isfinite().all():
        return math.inf
    size = expected.abs().clamp_min(expected.abs().max() * 1e-30)
    return float(((found - expected).abs() / size).max())


def _wrapped(phase: Tensor) -> float:
    """The largest distance to a whole number of turns, in radians."""
    if not phase.isfinite().all() or float(phase.abs().max()) > 1e9:  # nothing is left of it
        return math.pi
    return float((phase - 2 * math.pi * (phase / (2 * math.pi)).round()).abs().max())


def _cast(found: Tensor, expected: Tensor) -> str | None:
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(expected.float().to(dtype).double(), found):
            return str(dtype).removeprefix("torch.")
    return None


def _theta(frequencies: Tensor) -> float | None:
    """The theta of which these are the plain frequencies, if of any."""
    count = len(frequencies)
    if count < 3 or not (frequencies > 0).all() or abs(float(frequencies[0]) - 1) > 1e-3:
        return None
    theta = float(frequencies[-1]) ** (-count / (count - 1))
    ladder = theta ** (-torch.arange(count, dtype=torch.float64) / count)
    return theta if _error(frequencies, ladder) < 1e-3 else None


def _problem(buffer: Tensor, found: Tensor, expected: Tensor, config_theta: float | None) -> str:
    """What seems to have happened to the buffer."""
    if not found.isfinite().all():
        return "not finite, as memory that was never initialised"
    cast = _cast(found, expected)
    if cast is not None:
        return f"was cast to {cast}"
    if buffer.dtype in (torch.bfloat16, torch.float16):
        return f"is {str(buffer.dtype).removeprefix('torch.')}, and not the config's cast to it"
    theta = _theta(found)
    if theta is not None and config_theta is not None:
        if abs(theta / config_theta - 1) < 1e-3:
            return "has no scaling, the config asks for it"
        return f"is that of theta {theta:.6g}, the config says {config_theta:.6g}"
    if not ((found > 0) == (expected > 0)).all():
        return _NOTHING_LIKE
    ratio = (found / expected)[expected > 0]
    factor = float(torch.maximum(ratio, 1 / ratio).max())
    if factor > 1e6:
        return _NOTHING_LIKE
    if _error(ratio, ratio[:1].expand_as(ratio)) < 1e-3:
        return f"is {float(ratio[0]):.4g} times the config's"
    return f"differs from the config's by a factor of up to {factor:.4g}"


def _context(rope: Any, module: nn.Module) -> int:
    config = getattr(module, "config", None)
    said = getattr(config, "max_position_embeddings", 0)
    return max(rope.context.extended, rope.context.trained, said or 0) or _CONTEXT


def _check_frequencies(
    name: str, buffer: Tensor, rope: Any, module: nn.Module
) -> Finding | str | None:
    """A finding, or why the buffer cannot be checked, or None where it is right."""
    context = _context(rope, module)
    if buffer.is_meta:
        return Finding(name, "is on meta, without values", math.pi, context)
    if buffer.dim() != 1:
        return f"it has {buffer.dim()} dimensions"
    expected = _expected(rope, module, len(buffer))
    if not expected:
        return f"it has {len(buffer)} entries, which is not the number of the config's pairs"
    found = buffer.detach().cpu().double()
    if found.isfinite().all() and len(rope.axes) > 1:
        found = found.sort(descending=True).values
    best = min(expected, key=lambda each: _error(found, each.frequencies))
    if _error(found, best.frequencies) <= _TOLERANCE:
        return None
    phase = _wrapped((found - best.frequencies) * (context - 1))
    problem = _problem(buffer, found, best.frequencies, _plain_theta(rope))
    return Finding(name, problem, phase, context)


def _plain_theta(rope: Any) -> float | None:
    theta = getattr(rope.recipe, "theta", None)
    return float(theta) if theta else None


def _check_scale(
    path: str, module: nn.Module, layer_type: str | None, rope: Any, count: int
) -> Finding | None:
    attribute = f"{layer_type}_attention_scaling" if layer_type else "attention_scaling"
    scale = getattr(module, attribute, None)
    expected = [each.scale for each in _expected(rope, module, count)]
    if not isinstance(scale, (int, float)) or not expected:
        return None
    best = min(expected, key=lambda each: abs(scale - each))
    if abs(scale - best) <= _TOLERANCE * max(abs(best), 1e-3):
        return None
    problem = f"is {scale:.6g}, the config says {best:.6g}"
    return Finding(f"{path}.{attribute}", problem, 0.0, _context(rope, module), scale, best)


def _sinusoids(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Tables of sines, then cosines: [positions, rotary_dim] (GPT-J, CodeGen, RoFormer)."""
    for path, module in model.named_modules():
        table = dict(module.named_buffers(recurse=False)).get("embed_positions")
        if type(module).__name__ == "RoFormerSinusoidalPositionalEmbedding":
            path, table = path.removesuffix(".embed_positions"), module.weight
        if isinstance(table, Tensor) and table.dim() == 2:
            yield f"{path}.embed_positions".lstrip("."), table


def _check_sinusoid(name: str, table: Tensor, rope: Any) -> Finding | str | None:
    rows, columns = table.shape
    if table.is_meta:
        return Finding(name, "is on meta, without values", math.pi, rows)
    ladder = _ladder(rope.make_frequencies(), columns // 2)
    if ladder is None:
        return f"it has {columns} columns, which is not the number that the config's pairs need"
    sin, cos = table.detach().cpu().double().chunk(2, -1)
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * ladder
    phase = _wrapped(torch.atan2(sin, cos) - angle)
    length = (sin**2 + cos**2).sqrt()
    if phase <= _TABLE_TOLERANCE and float((length - 1).abs().max()) <= _TABLE_TOLERANCE:
        return None
    finite = table.isfinite().all()
    problem = "is not the config's" if finite else "is not finite"
    return Finding(name, problem, phase, rows)


class _Check:
    """Collects the findings of a model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.found: list[Finding] = []
        self.unchecked: dict[str, str] = {}
        self.checked = 0
        self.kernels = 0

    def keep(self, name: str, result: Finding | str | None) -> None:
        if isinstance(result, str):
            self.unchecked[name] = result
            return
        self.checked += 1
        if result is not None:
            self.found.append(result)

    def rope(self, name: str, module: nn.Module, layer_type: str | None) -> Any:
        try:
            return model_rope(module, getattr(self.model, "config", None), layer_type)
        except (ValueError, TypeError, KeyError) as error:
            self.unchecked[name] = str(error)
            return None

    def run(self) -> Findings:
        for path, module in rotary_modules(self.model):
            for layer_type, buffer in frequency_buffers(module).items():
                self._module(path, module, layer_type, buffer)
        for name, table in _sinusoids(self.model):
            rope = self.rope(name, self.model, None)
            if rope is not None:
                self.keep(name, _check_sinusoid(name, table, rope))
        for name, module, function in kernelized_rotations(self.model):
            self._kernel(name, module, function)
        return Findings(self.found, self.checked, self.unchecked, self.kernels)

    def _kernel(self, name: str, module: nn.Module, function: nn.Module) -> None:
        self.kernels += 1
        wrong = problem_of(module, function)
        if wrong is not None:
            problem, difference = wrong
            self.found.append(Finding(name, problem, 0.0, 0, difference=difference))

    def _module(self, path: str, module: nn.Module, layer_type: str | None, buffer: str) -> None:
        name = f"{path}.{buffer}".lstrip(".")
        rope = self.rope(name, module, layer_type)
        if rope is None:
            return
        tensor = getattr(module, buffer)
        self.keep(name, _check_frequencies(name, tensor, rope, module))
        scale = _check_scale(path, module, layer_type, rope, tensor.shape[-1])
        if scale is not None:
            self.found.append(scale)


def check(model: nn.Module) -> Findings:
    """Rotary buffers that are not what the model's config says: cast, never initialised, of another
    theta or without the scaling, and a wrong attention_scaling. Each with its phase error at the
    end of the model's context. Also rotations that `kernels` has replaced by ones with another
    result or, for a model in training mode, with other gradients or none. An empty list for a
    healthy model; nothing is changed."""
    return _Check(model).run()
