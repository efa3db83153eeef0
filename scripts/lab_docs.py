#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/lab.md, copied from the reports of the labs.

    for lab in bench/results/lab/*; do roformer lab report $lab; done
    scripts/lab_docs.py bench/results/lab            # writes the tables
    scripts/lab_docs.py bench/results/lab --check    # exit status 1 if one differs

A table of the page stands between two comments: the first names the lab and a heading of its
report.md, and perhaps which of the tables below that heading (from 1 on) and the variants to show.

    <!-- lab: length, Perplexity, disjoint rows -->
    <!-- lab: extend, Retrieval | table 2 | variants none x2, yarn x2 -->
    ...
    <!-- end of lab -->

Plots that the page shows are copied from the reports, too: lab/length-perplexity.svg is
perplexity.svg of the lab length.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "lab.md"
BLOCK = re.compile(
    r"^<!-- lab: (?P<what>.+?) -->\n(?P<table>.*?)^<!-- end of lab -->$", re.MULTILINE | re.DOTALL
)
# A plot of a report, beside the page: lab/length-perplexity.svg
PLOT = re.compile(r"\(lab/([a-z]+)-(\w+)\.svg\)")


class BlockError(Exception):
    """A comment names what the reports do not have."""


def tables_below(report: str, heading: str) -> list[list[str]]:
    """Tables of the section, each as its lines."""
    section = report.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables: list[list[str]] = [[]]
    for line in section.splitlines():
        if line.startswith("|"):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    return [table for table in tables if table]


def first_cell(line: str) -> str:
    return line.split("|")[1].strip()


def table_for(what: str, reports: pathlib.Path) -> str:
    source, *options = [part.strip() for part in what.split("|")]
    lab, _, heading = source.partition(", ")
    path = reports / lab / "report.md"
    if not path.is_file():
        raise BlockError(f"{path}: no such file; `roformer lab report` writes it")
    number, variants = 1, []
    for option in options:
        key, _, value = option.partition(" ")
        if key == "table":
            number = int(value)
        elif key == "variants":
            variants = [name.strip() for name in value.split(",")]
        else:
            raise BlockError(f"{what}: an option must be table or variants, got {key}")
    tables = tables_below(path.read_text(encoding="utf-8"), heading)
    if number > len(tables):
        raise BlockError(f"{path}: {len(tables)} tables below '{heading}', wanted number {number}")
    head, rule, *rows = tables[number - 1]
    if variants:
        by_name = {first_cell(row): row for row in rows}
        missing = [name for name in variants if name not in by_name]
        if missing:
            raise BlockError(f"{path}: no variant {missing[0]} below '{heading}'")
        rows = [by_name[name] for name in variants]
    return "".join(line + "\n" for line in (head, rule, *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables of docs/lab.md, from reports of labs.")
    parser.add_argument("reports", type=pathlib.Path, help="a folder with LAB/report.md")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    differing: list[str] = []

    def replaced(block: re.Match[str]) -> str:
        table = table_for(block["what"], arguments.reports)
        if table != block["table"]:
            differing.append(block["what"])
        return f"<!-- lab: {block['what']} -->\n{table}<!-- end of lab -->"

    try:
        new = BLOCK.sub(replaced, page)
    except BlockError as error:
        print(f"lab_docs.py: {error}", file=sys.stderr)
        return 2
    if arguments.check:
        for what in differing:
            print(f"docs/lab.md: the table of '{what}' is not that of the report", file=sys.stderr)
        return 1 if differing else 0
    PAGE.write_text(new, encoding="utf-8")
    for lab, chart in PLOT.findall(new):
        to = PAGE.parent / "lab" / f"{lab}-{chart}.svg"
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(arguments.reports / lab / f"{chart}.svg", to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
