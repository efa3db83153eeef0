# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.md, docs/claims.md and the tests that they name: each of them exists."""

import re

import pytest
from pages import ROOT


def rows_of(page):
    """The rows of the tables of a page, without their headers."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| (?!promise|statement)", line)]
    return [row.strip("| ").split(" | ") for row in rows]


ROWS = rows_of("docs/reliability.md")
CLAIMS = rows_of("docs/claims.md")
NAME = r"`(test_\w+|\w+\.\w+)`"
FILE = rf"`(tests/[\w/]+\.(?:py|cc))`: ({NAME}(?:, {NAME})*)"


def named_tests(row):
    """(file, test) of the last column, which has the form "`file`: `test`, `test`; `file`: ..."."""
    found = []
    for part in row[-1].split("; "):
        named = re.fullmatch(FILE, part)
        assert named, f"not a list of tests: {part}"
        found += [(named[1], name) for name in re.findall(NAME, named[2])]
    return found


def defines(text, name):
    if "." not in name:
        return re.search(rf"^def {name}\(", text, re.M)
    suite, test = name.split(".")
    return re.search(rf"^(TYPED_)?TEST(_F|_P)?\({suite}, {test}\)", text, re.M)


@pytest.mark.parametrize("row", ROWS + CLAIMS, ids=lambda row: row[0][:60])
def test_a_promise_has_tests(row):
    assert len(row) == (2 if row in ROWS else 3)
    for file, name in named_tests(row):
        path = ROOT / file
        assert path.is_file(), file
        assert defines(path.read_text(encoding="utf-8"), name), f"{file} has no {name}"


def test_every_promise_is_read():
    assert len(ROWS) >= 20 and len(CLAIMS) >= 18


def test_a_claim_has_a_verdict():
    for _, verdict, _ in CLAIMS:
        assert "holds" in verdict or "**errs**" in verdict, verdict
