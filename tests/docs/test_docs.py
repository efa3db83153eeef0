# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every C++ and C block of README and docs, and the example at the top of every public header, compiles;
the command lines of the README run; the picture in it is what the command prints."""

import os
import pathlib
import re
import shlex
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
C_HEADERS = sorted((ROOT / "include" / "rotary").glob("rotary_c*.h"))
HEADERS = [h for h in sorted((ROOT / "include" / "rotary").glob("*.h")) if h not in C_HEADERS]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# What the examples take for granted.
PRELUDE = """
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <string>
#include <vector>
{includes}
struct Given {{
  float* data = nullptr;
  float* more = nullptr;
  std::int64_t tokens = 4, heads = 2;
  std::vector<std::int64_t> position_ids, cu_seqlens;
}};
struct Pool {{
  void submit(const std::function<void()>&) {{}}
  void wait() {{}}
}};
[[maybe_unused]] static void example(Given given, rotary::TensorView q_given, const rotary::Rope& rope_given) {{
  [[maybe_unused]] auto [data, more, tokens, heads, position_ids, cu_seqlens] = given;
  [[maybe_unused]] const rotary::Rope& rope = rope_given;
  [[maybe_unused]] const rotary::TensorView q = q_given, k, out, q_out, k_out, q_8bit;
  [[maybe_unused]] const float* q_scale = nullptr;
  [[maybe_unused]] void *q_memory = nullptr, *k_memory = nullptr, *ids_memory = nullptr;
  [[maybe_unused]] struct SomeStream* stream = nullptr;  // stands for a cudaStream_t
  [[maybe_unused]] const rotary::ConstTensorView cos, sin;
  [[maybe_unused]] const rotary::CosSinTable per_token;
  [[maybe_unused]] const rotary::Frequencies frequencies;
  [[maybe_unused]] const rotary::HeadLayout layout;
  [[maybe_unused]] const rotary::Positions positions = rotary::Positions::range();
  [[maybe_unused]] Pool pool;
  {{
{body}
  }}
}}
"""


def compile_example(body, tmp_path):
    own = "\n".join(re.findall(r"^#include .*$", body, re.M))
    body = re.sub(r"^#include .*$\n?", "", body, flags=re.M)
    headers = "\n".join(f'#include "rotary/{h.name}"' for h in HEADERS)
    source = tmp_path / "example.cc"
    source.write_text(PRELUDE.format(includes=own + "\n" + headers, body=body))
    compiler = os.environ.get("CXX", "c++")
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT}", f"-I{ROOT / 'include'}", str(source)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, body + "\n" + done.stderr


C_PRELUDE = """
#include <stdio.h>
#include <stdlib.h>
#include "rotary/rotary_c.h"
void example(float* data, int64_t tokens, int64_t heads);
void example(float* data, int64_t tokens, int64_t heads) {{
  (void)data, (void)tokens, (void)heads;
  {{
{body}
  }}
}}
"""


def compile_c_example(body, tmp_path):
    body = re.sub(r"^#include .*$\n?", "", body, flags=re.M)
    source = tmp_path / "example.c"
    source.write_text(C_PRELUDE.format(body=body))
    compiler = os.environ.get("CC", "cc")
    done = subprocess.run(
        [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-variable",
         "-Wno-unused-but-set-variable", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, body + "\n" + done.stderr


def header_example(path):
    """The first block of lines above #pragma once that are indented by three spaces."""
    prose = path.read_text().split("#pragma once")[0]
    block = re.search(r"(?:^///   .*\n)+", prose, re.M)
    return re.sub(r"^///   ", "", block.group(0), flags=re.M) if block else ""


@pytest.mark.parametrize("header", [h for h in HEADERS if h.name not in ("error.h", "version.h")],
                         ids=lambda h: h.name)
def test_the_example_of_a_header_compiles(header, tmp_path):
    example = header_example(header)
    assert ";" in example, "the header begins without an example"
    compile_example(example, tmp_path)


def test_the_examples_of_the_headers_of_roformer_compile(tmp_path):
    headers = [h for room in ("text", "data") for h in sorted((ROOT / "roformer" / room).glob("*.h"))]
    with_example = [h for h in headers if ";" in header_example(h)]
    assert len(with_example) >= 8
    includes = [f'#include "{h.relative_to(ROOT)}"' for h in headers]
    compile_example("\n".join(includes + [f"{{\n{header_example(h)}}}" for h in with_example]), tmp_path)


@pytest.mark.parametrize("header", C_HEADERS, ids=lambda h: h.name)
def test_the_example_of_a_c_header_compiles(header, tmp_path):
    example = header_example(header)
    assert ";" in example, "the header begins without an example"
    compile_c_example(example, tmp_path)


def blocks(language):
    pattern = re.compile(rf"```{language}\n(.*?)```", re.S)
    return [(page.name, i, text) for page in PAGES
            for i, text in enumerate(pattern.findall(page.read_text()))]


@pytest.mark.parametrize("page,number,text", blocks("cpp"),
                         ids=lambda v: str(v) if not isinstance(v, str) or "\n" not in v else "")
def test_the_blocks_of_the_pages_compile(page, number, text, tmp_path):
    compile_example(text, tmp_path)


@pytest.mark.parametrize("page,number,text", blocks("c"),
                         ids=lambda v: str(v) if not isinstance(v, str) or "\n" not in v else "")
def test_the_c_blocks_of_the_pages_compile(page, number, text, tmp_path):
    compile_c_example(text, tmp_path)


def run(*arguments, cwd=ROOT):
    return subprocess.run([os.environ["ROTARY_COMMAND"], *arguments], capture_output=True, text=True,
                          check=False, cwd=cwd,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80"})


def test_the_command_lines_of_the_readme_run(tmp_path):
    np.save(tmp_path / "q.npy", np.ones((4096, 1, 128), np.float32))
    models = ROOT / "examples" / "models"
    words = {"MODEL": str(models / "llama-3.1-8b.json"), "A": str(models / "llama-3.1-8b.json"),
             "B": str(models / "qwen2.5-7b-yarn.json")}
    lines = [line for page, _, text in blocks("sh") if page == "README.md"
             for line in text.splitlines() if line.startswith("rotary ")]
    assert len(lines) >= 3
    for line in lines:
        line = line.split("#")[0].replace("[", "").replace("]", "")
        arguments = [words.get(word, word) for word in shlex.split(line)[1:]]
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, line + "\n" + done.stderr
    assert (tmp_path / "out.npy").exists()


def test_the_picture_in_the_readme_is_what_the_command_prints():
    text = (ROOT / "README.md").read_text()
    picture = text.split("```")[1]
    done = run("inspect", "examples/models/llama-3.1-8b.json")
    printed = {line.rstrip() for line in done.stdout.splitlines()}
    shown = [line.rstrip() for line in picture.splitlines()
             if line.strip() and not line.startswith("$") and "[...]" not in line]
    assert len(shown) > 20
    assert [line for line in shown if line not in printed] == []
