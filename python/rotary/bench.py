# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""python -m rotary.bench: the rotation against what models run today. Needs PyTorch, rotary.torch
and transformers; rotary/torch/bench.py does the work."""

from __future__ import annotations

import importlib
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs it with these arguments, or those of the command line."""
    importlib.import_module("rotary.torch.bench").main(arguments)


if __name__ == "__main__":
    main()
