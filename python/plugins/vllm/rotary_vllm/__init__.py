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

MODES = ("table", "exact", "off")


def mode() -> str:
    """What ROTARY_VLLM asks for. ValueError for something else."""
    found = os.environ.get("ROTARY_VLLM", "table")
    if found not in MODES:
        raise ValueError(f"[rotary_vllm] ROTARY_VLLM must be one of {MODES}, got {found!r}")
    return found


def register() -> None:
    """Replaces what ROTARY_VLLM says, and logs it. May be called again."""
    from vllm.logger import init_logger

    log = init_logger("vllm.plugins.rotary")  # vLLM shows the messages of its own loggers
    chosen = mode()
    if chosen == "table":
        from . import table

        device = table.replace_kernel()
        log.info(
            "rotary: replaced the kernel _C::rotary_embedding (%s). Angles are those of vLLM's "
            "table; ROTARY_VLLM=exact makes them exact, ROTARY_VLLM=off turns this off.",
            device,
        )
    elif chosen == "exact":
        from . import exact

        replaced, kept = exact.replace_classes()
        log.info(
            "rotary: exact angles in %s. As they were: %s. ROTARY_VLLM=off turns this off.",
            ", ".join(replaced),
            ", ".join(f"{name} ({why})" for name, why in kept.items()),
        )
    else:
        log.info("rotary: nothing replaced (ROTARY_VLLM=off).")
