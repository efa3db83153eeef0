# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""python make_examples.py FOLDER PAGE...: writes the C++ and C blocks of these pages to FOLDER, as
sources of the program docs_examples: pages.cc, pages.c, and pages_torch.cc for blocks that include
PyTorch. Each block is a function. Compiler errors name the line of the page."""

from __future__ import annotations

import hashlib
import pathlib
import re
import sys

from pages import ROOT, Block, blocks_of

USES_TORCH = re.compile(r"#include <rotary/(torch|transformer/)")

HEADERS = """\
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <rotary/model.h>
#include <rotary/rope.h>
"""

# Names that blocks use without declaring them: memory of four tokens, gradients, a stream, a rope.
GIVEN = """
[[maybe_unused]] const std::int64_t tokens = 4, heads = 2;
[[maybe_unused]] std::array<float, 1 << 16> data_storage{}, more_storage{};
[[maybe_unused]] float *data = data_storage.data(), *more = more_storage.data();
[[maybe_unused]] void *q_memory = data, *k_memory = more, *ids_memory = nullptr;
[[maybe_unused]] const auto dq =
    rotary::TensorView::contiguous(data, rotary::DType::kBFloat16, {tokens, 28, 128});
[[maybe_unused]] const auto dk =
    rotary::TensorView::contiguous(more, rotary::DType::kBFloat16, {tokens, 4, 128});
[[maybe_unused]] struct SomeStream* stream = nullptr;  // stands for a cudaStream_t
[[maybe_unused]] const rotary::Rope rope(
    rotary::make_frequencies({.rotary_dim = 64, .theta = 10000.0}),
    {.head_dim = 64, .pairing = rotary::Pairing::kHalf});
"""
TORCH_GIVEN = """
[[maybe_unused]] const std::string text = rotary::torch::to_text(rope);
[[maybe_unused]] const at::Tensor x = at::randn({2, 10, 512});
[[maybe_unused]] const at::Tensor q = at::randn({1, 10, 8, 64}), k = at::randn({1, 10, 2, 64});
"""
C_GIVEN = """
float memory[4 * 2 * 128] = {0};
float* data = memory;
int64_t tokens = 4, heads = 2;
(void)data, (void)tokens, (void)heads;
"""


def hash_of(block: Block) -> str:
    return hashlib.sha256(block.text.encode()).hexdigest()[:16]


def split_includes(text: str) -> tuple[list[str], str]:
    """The #include lines of a block, and the block with these lines empty."""
    pattern = re.compile(r"^#include .*$", re.M)
    return pattern.findall(text), pattern.sub("", text)


def function_of(block: Block, function: str, given: str) -> str:
    """A block as the body of a function, after the names that it is given. A block with a `main` is
    the body of a namespace instead (in C of the file), and the function calls that main."""
    body = split_includes(block.text)[1]
    place = f'#line {block.line} "{ROOT / block.page}"'
    main = re.compile(r"\bint main\(.*?\) \{")
    if not main.search(body):
        return f"void {function}(void) {{\n{given}  {{\n{place}\n{body}  }}\n}}\n"
    body = main.sub(f"static int {function}_main(void) {{", body)
    fail = "exit(1);"
    if block.language == "cpp":
        body = (
            f"namespace {function}_block {{\n{place}\n{body}}}\nusing namespace {function}_block;"
        )
        fail = 'throw std::runtime_error("main fails");'
    else:
        body = f"{place}\n{body}"
    return f"{body}\nvoid {function}(void) {{\n  if ({function}_main() != 0) {fail}\n}}\n"


def source_of(blocks: list[Block], given: str, more_headers: str = "") -> str:
    """A C++ source with the blocks of C++ and declarations of those of C."""
    includes = [line for block in blocks if block.language == "cpp"
                for line in split_includes(block.text)[0]]  # fmt: skip
    parts = [
        "\n".join(dict.fromkeys(includes)),
        HEADERS,
        more_headers,
        '#include "docs/examples.h"',
    ]
    for number, block in enumerate(blocks):
        function = f"example_{number}"
        if block.language == "c":
            function = f"example_c_{block.line}"
            parts.append(f'extern "C" void {function}(void);')
        else:
            parts.append(f"namespace {{\n{function_of(block, function, given)}}}")
        run = "nullptr" if block.reason else function
        parts.append(f"static const rotary::docs::Example kExample{number}(\n"
                     f'    "{block.name}", "{hash_of(block)}", {run});')  # fmt: skip
    return "\n".join(parts) + "\n"


def c_source_of(blocks: list[Block]) -> str:
    parts = ["#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>"]
    for block in blocks:
        parts += split_includes(block.text)[0]
        name = f"example_c_{block.line}"
        parts.append(f"void {name}(void);\n" + function_of(block, name, C_GIVEN))
    return "\n".join(parts) + "\n"


def main() -> None:
    folder, pages = pathlib.Path(sys.argv[1]), [pathlib.Path(page) for page in sys.argv[2:]]
    found = [
        block
        for page in pages
        for block in blocks_of(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    ]
    c = [block for block in found if block.language == "c"]
    cpp = [block for block in found if block.language == "cpp"]
    torch = [block for block in cpp if USES_TORCH.search(block.text)]
    core = [block for block in cpp if block not in torch]
    for name, text in {
        "pages.cc": source_of(core + c, GIVEN),
        "pages.c": c_source_of(c),
        "pages_torch.cc": source_of(torch, GIVEN + TORCH_GIVEN, "#include <rotary/torch.h>"),
    }.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
