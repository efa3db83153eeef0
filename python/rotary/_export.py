# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""`rotary export onnx` and `rotary export kernels`, which __main__.py runs here: writing ONNX takes
the package onnx."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import NoReturn

EPILOG = """The file has the inputs q and k, [batch, heads, tokens, head_dim], and position_ids,
[batch, tokens], and rotates by the standard operator RotaryEmbedding with exact caches.

With --exact it rotates by rotary's own operator instead, for onnxruntime: no caches, every rope,
any position. rotary.onnx.register(session_options) loads it.

Examples:
  rotary export onnx Phi-3.5-mini/ -o rope.onnx --dtype float16
  rotary export onnx Qwen3-VL/ -o rope.onnx --exact

`rotary export kernels --help`: layers for Hugging Face `kernels`."""


class Parser(argparse.ArgumentParser):
    """With errors of one line, as those of the program."""

    def error(self, message: str) -> NoReturn:
        print(f"rotary: {message}", file=sys.stderr)
        sys.exit(2)


def parser() -> Parser:
    arguments = Parser(
        prog="rotary export",
        description="Write the rotation of a model for another runtime",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = arguments.add_argument
    add("format", metavar="FORMAT", choices=["onnx"], help="onnx")
    add("model", metavar="MODEL", help="config.json, model folder or .gguf file")
    add("-o", "--out", metavar="FILE", required=True, help="file to write")
    add("--rope", metavar="NAME", default="", help="name of the rope, for models with several")
    add("--exact", action="store_true", help="rotary's operator for onnxruntime, without caches")
    add("--length", metavar="N", type=int, default=0, help="positions; default: the context")
    add("--context", metavar="N", type=int, default=0, help="context in use, for one regime")
    add("--dtype", metavar="TYPE", default="float32", help="float32, float16, bfloat16")
    add("--opset", metavar="N", type=int, default=23, help="opset of the file; default: 23")
    return arguments


def main(words: list[str]) -> int:
    if words[:1] == ["kernels"]:
        return int(importlib.import_module("rotary.kernels.exporting").main(words[1:]))
    options = parser().parse_args(words)
    try:
        export = importlib.import_module("rotary.onnx").export

        model = export(
            options.model,
            options.out,
            rope=options.rope,
            length=options.length,
            context=options.context,
            dtype=options.dtype,
            opset=options.opset,
            exact=options.exact,
        )
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"rotary: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if options.exact:
        size = "exact angles by the operator rotary.Rotate"
    else:
        rows, pairs = model.graph.initializer[0].dims
        size = f"{rows} positions of {pairs} pairs"
    print(f"{options.out}: {size}, {options.dtype}, opset {options.opset}")
    return 0
