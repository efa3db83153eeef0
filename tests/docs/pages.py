# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The pages and their code blocks.

A comment in the line above a block says that it cannot be run here as it stands, and why:

    <!-- test: takes minutes -->

REASONS lists what may be said, and what is still checked of such a block.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]

# text: a drawing or a formula, with nothing to run.
LANGUAGES = ["c", "cmake", "console", "cpp", "json", "python", "sh", "text"]
REASONS = {
    "needs a GPU": "C++ is compiled, Python runs with cpu for cuda; what commands name exists",
    "takes minutes": "commands run in a shorter form; printed numbers are not compared",
    "needs make hooks": "compiled here; tests/hooks runs it with the other project",
    "builds the project": "the targets, options and extras of commands exist; the tests "
    "package_new_clone, package_pip_torch and package_wheel run what builds and installs",
}
# Which blocks can have which reason.
MARKABLE = {
    "needs a GPU": {"c", "cpp", "python", "sh"},
    "takes minutes": {"console", "sh"},
    "needs make hooks": {"python"},
    "builds the project": {"sh"},
}
COMMAND = re.compile(
    r"\s*(\$ |(rotary|roformer|make|cmake|ctest|pip|python|torchrun|scripts/\S+) )"
)


@dataclasses.dataclass(frozen=True)
class Block:
    page: str  # relative to the root
    line: int  # of the first line of its text
    language: str
    text: str
    reason: str  # "", or why it is not run as it stands

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, content: str) -> list[Block]:
    """The blocks of a page. Raises ValueError for one that is not as the top of this file says."""
    found = []
    lines = content.splitlines()
    index = 0
    while index < len(lines):
        opening = re.fullmatch(r"( *)(```+|~~~+)(.*)", lines[index])
        if not opening:
            if lines[index].startswith("<!-- test:") and not re.match(
                r" *(```|~~~)", "".join(lines[index + 1 : index + 2])
            ):
                raise ValueError(f"{page}:{index + 1}: a comment for tests above no block")
            index += 1
            continue
        indent, fence, language = opening.groups()
        first = index + 1
        end = next((n for n in range(first, len(lines)) if lines[n].strip() == fence), len(lines))
        where = f"{page}:{first}"
        if end == len(lines):
            raise ValueError(f"{where}: a block without an end")
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines[first:end])
        found.append(Block(page, first + 1, language, text, reason_above(lines, first - 1, where)))
        reject(found[-1], where)
        index = end + 1
    return found


def reason_above(lines: list[str], fence: int, where: str) -> str:
    comment = re.fullmatch(r"<!-- test: (.*?) -->", lines[fence - 1]) if fence > 0 else None
    if comment and comment[1] not in REASONS:
        raise ValueError(f"{where}: {comment[1]!r} is none of {', '.join(REASONS)}")
    return comment[1] if comment else ""


def reject(block: Block, where: str) -> None:
    if block.language not in LANGUAGES:
        raise ValueError(f"{where}: {block.language!r} is none of {', '.join(LANGUAGES)}")
    if block.reason and block.language not in MARKABLE[block.reason]:
        raise ValueError(f"{where}: {block.language} cannot be marked: {block.reason}")
    if block.language == "text" and any(COMMAND.match(line) for line in block.text.splitlines()):
        raise ValueError(f"{where}: a command in a block of text")


def all_blocks() -> list[Block]:
    return [
        block
        for page in PAGES
        for block in blocks_of(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    ]


def prose_of(content: str) -> str:
    """A page without its blocks, whose lines stay empty."""
    blank = lambda found: "\n" * found[0].count("\n")  # noqa: E731
    return re.sub(r"^( *)(```+|~~~+).*?^ *\2$", blank, content, flags=re.M | re.S)


def spans_of(content: str) -> list[str]:
    """Code spans of a page's prose, their line breaks as spaces."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose_of(content))]
