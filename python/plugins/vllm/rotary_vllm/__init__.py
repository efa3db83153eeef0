# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary as a plugin of vLLM, which loads it by itself in every process.

The environment variable ROTARY_VLLM says what it does:
    table   (default) vLLM's kernel `_C::rotary_embedding` is rotary's: the angles of vLLM's table
    exact   vLLM's rotary classes are replaced by ones with exact angles at any position
    off     nothing
"""

from __future__ import annotations

import os
import sys

MODES = ("table", "exact", "off")


def mode() -> str:
    """What ROTARY_VLLM asks for. ValueError for something else."""
    found = os.environ.get("ROTARY_VLLM", "table")
    if found not in MODES:
        raise ValueError(f"[rotary_vllm] ROTARY_VLLM must be one of {MODES}, got {found!r}")
    return found


def _say(message: str) -> None:
    """In vLLM's log, or to stderr where it is not set up yet: plugins are loaded before it is."""
    from vllm.logger import init_logger

    log = init_logger("vllm.plugins.rotary")  # vLLM shows the messages of its own loggers
    if log.hasHandlers():
        log.info("%s", message)
    else:
        print(message, file=sys.stderr, flush=True)


def register() -> None:
    """Replaces what ROTARY_VLLM says, and says so. May be called again."""
    chosen = mode()
    if chosen == "table":
        from . import table

        _say(
            f"rotary: replaced the kernel _C::rotary_embedding ({table.replace_kernel()}). Angles "
            "are those of vLLM's table; ROTARY_VLLM=exact makes them exact, ROTARY_VLLM=off turns "
            "this off."
        )
    elif chosen == "exact":
        from . import exact

        replaced, kept = exact.replace_classes()
        reasons = ", ".join(f"{name} ({why})" for name, why in kept.items())
        rest = f"As they were: {reasons}. " if kept else ""
        _say(
            f"rotary: exact angles in {', '.join(replaced)}. {rest}ROTARY_VLLM=off turns this off."
        )
    else:
        _say("rotary: nothing replaced (ROTARY_VLLM=off).")
