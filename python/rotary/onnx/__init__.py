# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotations in ONNX: the standard operator RotaryEmbedding (opset 23) with exact caches.

    rotary.onnx.export("Phi-3.5-mini/", "rope.onnx")              # a model of q, k and position_ids
    graph, count = rotary.onnx.replace(graph, rope, length=4096)  # in a graph that another wrote

cos and sin of every position are computed exactly, times the recipe's scale, and rounded once. With
exact=True the rotation is an operator of rotary instead, for onnxruntime: no caches, every rope,
any position. rotary.onnx.register(session_options) loads it.
"""

from __future__ import annotations

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError("rotary.onnx needs the package onnx: pip install onnx") from error
if not _onnx.defs.has("RotaryEmbedding"):
    raise ImportError(f"rotary.onnx needs onnx 1.19 or newer, got {_onnx.__version__}")

from .exporting import export
from .operator import library, register
from .replacing import replace

__all__ = ["export", "library", "register", "replace"]
