# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The memory of large results on the CPU, which later results use again.

Memory that is new to a process is made page by page as it is first written, which takes longer than
the rotation. So results of 1 MiB and more take what earlier ones have left, where sizes fit. What
is kept so is at most 1 GiB, or the MiB of $ROTARY_TORCH_MEMORY_LIMIT. CUDA has PyTorch's own pool.
"""

from __future__ import annotations

from typing import NamedTuple

from ._library import ops


class MemoryUse(NamedTuple):
    """In bytes."""

    in_use: int
    """By results that are alive."""
    idle: int
    """Kept for results to come."""
    limit: int
    """Of what is kept idle."""


def memory_use() -> MemoryUse:
    """Of results of 1 MiB and more, on the CPU."""
    return MemoryUse(*ops.memory_use())


def release_memory() -> None:
    """Gives what is idle back to the system."""
    ops.release_memory()


def set_memory_limit(size: int) -> None:
    """The bytes that may be kept idle. What was idle for longest is given back first; 0 keeps
    nothing."""
    ops.set_memory_limit(size)
