# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The example at the top of every public header compiles."""

import os
import re
import subprocess

import pytest
from pages import ROOT

C_HEADERS = sorted((ROOT / "include" / "rotary").glob("rotary_c*.h"))
HEADERS = [h for h in sorted((ROOT / "include" / "rotary").glob("*.h")) if h not in C_HEADERS]
WITHOUT_EXAMPLE = {"error.h", "version.h"}
# Without those of readers, which parse with internals of the library.
ROFORMER_HEADERS = [
    h
    for folder in ("text", "data")
    for h in sorted((ROOT / "roformer" / folder).glob("*.h"))
    if '#include "json/' not in h.read_text(encoding="utf-8")
]

# Names that the examples use without declaring them.
PRELUDE = """
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>
{includes}
struct Pool {{
  void submit(const std::function<void()>&) {{}}
  void wait() {{}}
}};
struct Given {{
  float *data = nullptr, *more = nullptr;
  std::int64_t tokens = 4, heads = 2;
  std::vector<std::int64_t> position_ids, cu_seqlens;
  const rotary::Rope& rope;
  const rotary::TensorView q, k, v, out, q_out, k_out, q_8bit, key_cache, value_cache;
  const float* q_scale = nullptr;
  void *q_memory = nullptr, *k_memory = nullptr, *ids_memory = nullptr;
  struct SomeStream* stream = nullptr;  // stands for a cudaStream_t
  const rotary::ConstTensorView cos, sin, q_weight, k_weight, slot_mapping;
  const rotary::CosSinTable per_token;
  const rotary::Frequencies frequencies;
  const rotary::HeadLayout layout;
  const rotary::Positions positions = rotary::Positions::range();
  Pool pool;
{examples}
}};
"""
C_PRELUDE = """
#include <stdio.h>
#include <stdlib.h>
#include "rotary/rotary_c_analysis.h"
extern const rotary_rope* rope;
{examples}
"""
C_FUNCTION = "void {name}(float* data, int64_t tokens, int64_t heads)"


def example_of(path):
    """The first lines above #pragma once that are indented by three spaces, and their line."""
    prose = path.read_text(encoding="utf-8").split("#pragma once")[0]
    block = re.search(r"(?:^///   .*\n)+", prose, re.M)
    if not block:
        return "", 0
    text = re.sub(r"^///   ", "", block[0], flags=re.M)
    return text, prose[: block.start()].count("\n") + 1


def body_of(path):
    text, line = example_of(path)
    return f'{{\n#line {line} "{path}"\n{text}}}'


def compile_source(source, text, *flags):
    source.write_text(text, encoding="utf-8")
    compiler = os.environ.get("CC", "cc") if source.suffix == ".c" else os.environ.get("CXX", "c++")
    includes = [f"-I{ROOT}", f"-I{ROOT / 'include'}"]
    return subprocess.run(
        [compiler, "-fsyntax-only", *flags, *includes, str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "header",
    [h for h in HEADERS if h.name not in WITHOUT_EXAMPLE] + C_HEADERS,
    ids=lambda h: h.name,
)
def test_a_header_has_an_example(header):
    assert ";" in example_of(header)[0]


def test_examples_compile(tmp_path):
    roformer = [h for h in ROFORMER_HEADERS if ";" in example_of(h)[0]]
    assert len(roformer) >= 8
    examples = [h for h in HEADERS if h.name not in WITHOUT_EXAMPLE] + roformer
    text = PRELUDE.format(
        includes="\n".join(f'#include "{h}"' for h in HEADERS + ROFORMER_HEADERS),
        examples="\n".join(f"void example_{n}() {body_of(h)}" for n, h in enumerate(examples)),
    )
    done = compile_source(tmp_path / "examples.cc", text, "-std=c++20")
    assert done.returncode == 0, done.stderr


def test_c_examples_compile(tmp_path):
    functions = [C_FUNCTION.format(name=f"example_{n}") for n in range(len(C_HEADERS))]
    text = C_PRELUDE.format(
        examples="\n".join(
            f"{function};\n{function} {{\n(void)data, (void)tokens, (void)heads;\n{body_of(h)}}}"
            for function, h in zip(functions, C_HEADERS)
        )
    )
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-variable", "-Werror",
                "-Wno-unused-but-set-variable"]  # fmt: skip
    done = compile_source(tmp_path / "examples.c", text, "-std=c11", *warnings)
    assert done.returncode == 0, done.stderr
