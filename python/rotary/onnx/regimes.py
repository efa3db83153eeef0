# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Ropes whose frequencies depend on the context, as caches that cannot."""

from __future__ import annotations

import dataclasses

from ..model import ModelRope
from ..recipe import LongRope
from ..rope import Rope, depends_on_context


@dataclasses.dataclass(frozen=True)
class Regimes:
    """The ropes of the regimes, and the position that asks for the second one (0: there is one)."""

    ropes: list[Rope]
    switch: int = 0
    #: Of a rope whose other contexts a graph may have.
    recipe: ModelRope | None = None

    def candidates(self, *contexts: int) -> list[Rope]:
        """What a graph may have at positions in these contexts."""
        if self.recipe is None:
            return self.ropes
        return [*self.ropes, *(self.recipe.make_rope(context) for context in contexts)]


def regimes_of(
    rope: Rope | ModelRope, context: int, length: int, function: str, *, any_context: bool = False
) -> Regimes:
    """For caches of `length` positions. A Rope has the frequencies that it was made with.

    any_context: of a rotation without caches, which follows the largest position of a call."""
    if isinstance(rope, Rope):
        if context:
            raise ValueError(
                f"[{function}] a Rope has the frequencies of one context already: give a rope of "
                f"rotary.Model for a context of {context}"
            )
        return Regimes([rope])
    if not depends_on_context(rope.recipe):
        return Regimes([rope.make_rope()])
    if context:
        return Regimes([rope.make_rope(context)], recipe=rope)
    if any_context:
        return Regimes([rope.make_rope()], recipe=rope)
    scaling = rope.recipe.scaling
    if not isinstance(scaling, LongRope):
        raise ValueError(
            f"[{function}] {type(scaling).__name__} has other angles for every context: give one "
            "(context, --context)"
        )
    original = scaling.original_context
    short = rope.make_rope(original)
    if length <= original:
        return Regimes([short], recipe=rope)
    return Regimes([short, rope.make_rope(length)], original, rope)
