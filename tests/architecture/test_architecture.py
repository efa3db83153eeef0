# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The architecture as docs/architecture.md draws it, as CMake builds it, and as the sources use it.

The table of parts in docs/architecture.md names every folder, its target and what it may include.
CMake writes the same from its own lists (build/architecture.txt). Both must agree, every include
must be allowed, every allowed arrow must be used, and nothing may form a circle. The Python package
must not import in circles either.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["ROTARY_BUILD_DIR"])

# Public headers by group; a part may include the groups that its row names as <group>.
GROUPS = {
    "base": "cpu cuda error operands pairing positions tensor threads version write_order",
    "frequencies": "frequencies recipe",
    "analysis": "analysis",
    "rope": "rope table",
    "model": "dialect model recipe_json",
    "io": "io",
    "c": "rotary_c rotary_c_analysis rotary_c_types",
}
GROUP_OF = {f"rotary/{name}.h": group for group, names in GROUPS.items() for name in names.split()}

# Parts whose folder holds a group of public headers.
OWN_GROUP = {"rotary_torch": "<torch>", "rotary_transformer": "<transformer>"}

Parts = dict[str, tuple[str, set[str]]]  # target -> folder, what it uses


def documented(text: str) -> Parts:
    """The table of parts: | `folder` | `target` | what it uses |."""
    parts = {}
    for folder, target, uses in re.findall(r"^\| `([\w/]+)` \| `(\w+)` \| (.*?) \|", text, re.M):
        words = {word.strip("` ") for word in uses.split(",")} - {"nothing"}
        parts[target] = (folder, words)
    return parts


def configured(text: str) -> Parts:
    parts = {}
    for line in text.splitlines():
        head, _, uses = line.partition(":")
        target, folder = head.split()
        parts[target] = (folder, set(uses.split()))
    return parts


def part_of(path: str, parts: Parts) -> str | None:
    """The part with the longest folder that holds the path."""
    holders = [t for t, (folder, _) in parts.items() if path.startswith(folder + "/")]
    return max(holders, key=lambda t: len(parts[t][0]), default=None)


def included(name: str, parts: Parts) -> str | None:
    """What an include names: a part, or <group> of public headers; None for other libraries."""
    if name in GROUP_OF:
        return f"<{GROUP_OF[name]}>"
    if name.startswith("rotary/torch"):
        return "<torch>"
    if name.startswith("rotary/transformer/"):
        return "<transformer>"
    for candidate in (name, f"src/{name}"):
        part = part_of(candidate, parts)
        if part is not None:
            return part
    return None


def sources(root: Path) -> Iterator[tuple[str, str]]:
    for top in (
        "src",
        "explorer/bridge",
        "explorer/embed",
        "python/onnx_op",
        "tools",
        "pytorch",
        "transformer",
        "roformer",
    ):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".h", ".cc", ".cu", ".cuh"}:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def arrows(files: Iterator[tuple[str, str]], parts: Parts) -> dict[tuple[str, str], str]:
    """(from, to) -> one file with such an include."""
    found: dict[tuple[str, str], str] = {}
    for path, text in files:
        here = part_of(path, parts)
        if here is None:
            found[path, "a part that docs/architecture.md names"] = path
            continue
        for name in re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', text, re.M):
            there = included(name, parts)
            if there is not None and there not in {here, OWN_GROUP.get(here)}:
                found.setdefault((here, there), f"{path}: {name}")
    return found


def forbidden(root_files: Iterator[tuple[str, str]], parts: Parts) -> list[str]:
    found = arrows(root_files, parts)
    return [where for (here, there), where in found.items() if there not in parts[here][1]]


PARTS = documented((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))


def test_document_names_every_target() -> None:
    built = configured((BUILD / "architecture.txt").read_text(encoding="utf-8"))
    assert {t: folder for t, (folder, _) in built.items()} == {
        t: folder for t, (folder, _) in PARTS.items()
    }
    for target, (_, uses) in built.items():
        private = {use for use in PARTS[target][1] if not use.startswith("<")}
        assert uses == private, target


def test_every_include_is_allowed() -> None:
    assert forbidden(sources(ROOT), PARTS) == []


def test_every_arrow_is_used() -> None:
    found = arrows(sources(ROOT), PARTS)
    drawn = {(target, use) for target, (_, uses) in PARTS.items() for use in uses}
    assert drawn - set(found) == set()


def test_no_circles() -> None:
    left = {t: {u for u in uses if u in PARTS} for t, (_, uses) in PARTS.items()}
    while left:
        free = {t for t, uses in left.items() if not uses & set(left)}
        assert free, f"a circle among {sorted(left)}"
        for target in free:
            del left[target]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/frequencies/linear.cc", "rope/validate.h"),
        ("src/frequencies/linear.cc", "rotary/rope.h"),
        ("src/cpu/plan.cc", "rotary/model.h"),
        ("src/rope/rope.cc", "cpu/plan.h"),
        ("pytorch/views.cc", "rotary/transformer/attention.h"),
        ("roformer/train/step.cc", "roformer/tasks/finetune.h"),
    ],
)
def test_a_forbidden_include_is_found(path: str, include: str) -> None:
    planted = iter([(path, f'#include "{include}"\n')])
    assert forbidden(planted, PARTS) == [f"{path}: {include}"]


def test_a_forbidden_include_finds_no_file() -> None:
    """The include directory of a part holds its own headers alone."""
    for target, (folder, _) in PARTS.items():
        if target == "rotary_transformer":  # public headers alone
            continue
        root = BUILD / "headers" / target
        links = [p for p in root.rglob("*") if p.is_symlink()]
        assert [p.resolve() for p in links] == [ROOT / folder], target


def test_python_imports_no_circles() -> None:
    package = ROOT / "python/rotary"
    modules = {
        p.relative_to(package.parent).with_suffix("").as_posix().replace("/", "."): p
        for p in package.rglob("*.py")
    }
    uses: dict[str, set[str]] = {}
    for name, path in modules.items():
        base = name.removesuffix(".__init__").split(".")
        if not name.endswith(".__init__"):
            base = base[:-1]
        uses[name] = set()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ImportFrom):
                continue
            start = ".".join(base[: len(base) - (node.level - 1)]) if node.level else ""
            target = ".".join(x for x in (start, node.module) if x)
            for alias in node.names:
                for candidate in (f"{target}.{alias.name}", target):
                    if candidate in modules and candidate != name:
                        uses[name].add(candidate)
                        break
    left = dict(uses)
    while left:
        free = {m for m, used in left.items() if not used & set(left)}
        assert free, f"a circle among {sorted(left)}"
        for module in free:
            del left[module]
