#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What docs/lab.md shows of the labs' reports: tables, sentences, plots; and claims of its prose.

    for lab in bench/results/lab/*; do roformer lab report $lab; done
    scripts/lab_docs.py bench/results/lab            # writes tables and sentences, copies plots
    scripts/lab_docs.py bench/results/lab --check    # exit status 1 if one differs

A table of the page stands between two comments: the first names the lab and a heading of its
report.md, and perhaps which of the tables below that heading (from 1 on) and the variants to show.

    <!-- lab: length, Perplexity, disjoint rows -->
    <!-- lab: extend, Retrieval | table 2 | variants none x2, yarn x2 -->
    ...
    <!-- end of lab -->

With `text WORDS` the block is the paragraphs of that section that contain the words.

Plots that the page shows are copied from the reports, too: lab/length-perplexity.svg is
perplexity.svg of the lab length. --check compares their lines, not their letters, whose shapes are
those of the fonts of a machine.

Prose that depends on numbers is checked by claims, Python expressions beside it that must be true
of the kept results, with the functions of `Kept`:

    <!-- lab claim: length, mean("rope", "perplexity", length=8192) > 2 * mean(...) -->
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "lab.md"
BLOCK = re.compile(
    r"^<!-- lab: (?P<what>.+?) -->\n(?P<table>.*?)^<!-- end of lab -->$", re.MULTILINE | re.DOTALL
)
CLAIM = re.compile(r"^<!-- lab claim: (?P<lab>\w+), (?P<claim>.+?) -->$", re.MULTILINE | re.DOTALL)
WIDTH = 130
# A plot of a report, beside the page: lab/length-perplexity.svg
PLOT = re.compile(r"\(lab/([a-z_]+)-(\w+)\.svg\)")


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


def paragraphs_below(report: str, heading: str) -> list[str]:
    """Paragraphs of the section that are neither tables nor plots."""
    section = report.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    parts = [part.strip() for part in section.split("\n\n")]
    return [part for part in parts if part and not part.startswith(("|", "!", "`"))]


def first_cell(line: str) -> str:
    return line.split("|")[1].strip()


def text_for(path: pathlib.Path, heading: str, words: str) -> str:
    paragraphs = paragraphs_below(path.read_text(encoding="utf-8"), heading)
    found = [part for part in paragraphs if words in part]
    if not found:
        raise BlockError(f"{path}: no paragraph with '{words}' below '{heading}'")
    lines = textwrap.wrap(" ".join(found), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(line + "\n" for line in lines)


def block_for(what: str, reports: pathlib.Path) -> str:
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
        elif key == "text":
            return text_for(path, heading, value)
        else:
            raise BlockError(f"{what}: an option must be table, variants or text, got {key}")
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


class Kept:
    """The rows of a lab, for claims."""

    def __init__(self, path: pathlib.Path) -> None:
        self.rows = json.loads(path.read_text(encoding="utf-8"))["rows"]

    def seeds(self, variant: str, metric: str, **at: float) -> list[float]:
        """The value of each seed."""
        found = [
            row["value"]
            for row in self.rows
            if row["variant"] == variant and row["metric"] == metric and row["at"] == at
        ]
        if not found or None in found:
            raise BlockError(f"no {metric} of {variant} at {at}")
        return found

    def mean(self, variant: str, metric: str, **at: float) -> float:
        return statistics.mean(self.seeds(variant, metric, **at))

    def spread(self, variant: str, metric: str, **at: float) -> float:
        """Standard deviation over seeds."""
        return statistics.stdev(self.seeds(variant, metric, **at))

    def variants(self, metric: str) -> list[str]:
        """Of the rows that have a value."""
        with_value = (row for row in self.rows if row["metric"] == metric)
        return list(dict.fromkeys(row["variant"] for row in with_value if row["value"] is not None))


def false_claims(page: str, reports: pathlib.Path) -> list[str]:
    """Claims of the page that the results do not bear out."""
    wrong = []
    labs: dict[str, Kept] = {}
    for match in CLAIM.finditer(page):
        lab = match["lab"]
        kept = labs.get(lab) or labs.setdefault(lab, Kept(reports / lab / "results.json"))
        names = {name: getattr(kept, name) for name in ("seeds", "mean", "spread", "variants")}
        expression = " ".join(match["claim"].split())
        # The page is a source of this repository, as this script is.
        if not eval(expression, names):
            wrong.append(f"{lab}: {expression}")
    return wrong


def drawn(svg: str) -> list[str]:
    """The paths of a plot outside its definitions, which are letters and clips."""
    without = re.sub(r"<defs>.*?</defs>", "", svg, flags=re.DOTALL)
    return re.findall(r"\bd=\"([^\"]*)\"", without)


def plots_of(page: str, reports: pathlib.Path) -> list[tuple[pathlib.Path, pathlib.Path]]:
    """Plots of the reports, and where the page has them; none in a build without cairo."""
    plots = [
        (reports / lab / f"{chart}.svg", PAGE.parent / "lab" / f"{lab}-{chart}.svg")
        for lab, chart in PLOT.findall(page)
    ]
    return [(made, shown) for made, shown in plots if made.is_file()]


def is_same(made: pathlib.Path, shown: pathlib.Path) -> bool:
    return shown.is_file() and drawn(made.read_text("utf-8")) == drawn(shown.read_text("utf-8"))


def main() -> int:
    parser = argparse.ArgumentParser(description="What docs/lab.md shows of the labs' reports.")
    parser.add_argument("reports", type=pathlib.Path, help="a folder with LAB/report.md")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    differing: list[str] = []

    def replaced(block: re.Match[str]) -> str:
        text = block_for(block["what"], arguments.reports)
        if text != block["table"]:
            differing.append(f"'{block['what']}' is not as in the report")
        return f"<!-- lab: {block['what']} -->\n{text}<!-- end of lab -->"

    try:
        new = BLOCK.sub(replaced, page)
        wrong = [f"not so: {claim}" for claim in false_claims(page, arguments.reports)]
    except BlockError as error:
        print(f"lab_docs.py: {error}", file=sys.stderr)
        return 2
    changed = [
        (made, shown)
        for made, shown in plots_of(new, arguments.reports)
        if not is_same(made, shown)
    ]
    if arguments.check:
        differing += [f"lab/{shown.name} is not the plot of the results" for _, shown in changed]
    else:
        differing = []
        PAGE.write_text(new, encoding="utf-8")
        for made, shown in changed:
            shown.parent.mkdir(exist_ok=True)
            shutil.copyfile(made, shown)
    for message in differing + wrong:
        print(f"docs/lab.md: {message}", file=sys.stderr)
    return 1 if differing or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
