# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The rotation of the library in this folder, in a namespace of operators of its own."""

from pathlib import Path
from typing import Any

from torch.compiler import is_compiling

from .stable_abi import Operators

# `kernels` imports a variant under a name that no other one has.
_operators = Operators(
    Path(__file__).with_name("librotary_torch_stable.so"), __name__.split(".")[0]
)


def rotate_by_table(tensors: Any, cos: Any, sin: Any, rope: str, token_dim: int) -> Any:
    """One tensor gives one result, several give a tuple."""
    if not is_compiling():
        return _operators.rotate_table(tuple(tensors), cos, sin, rope, token_dim)
    results = _operators.ops.rotate_table.default(tensors, cos, sin, rope, token_dim)
    return results[0] if len(tensors) == 1 else tuple(results)
