# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary bench: which rows it measures and how it tells them. Never how fast: that is for people
to judge on a quiet machine."""

import itertools
import json
import re
import subprocess

import pytest
from command import fail, succeed

KEYS = [
    "shape",
    "batch",
    "tokens",
    "heads",
    "head_dim",
    "dtype",
    "pairing",
    "placement",
    "tables",
    "threads",
    "ns",
    "copy_ns",
    "scale_ns",
    "spread",
    "gb_per_s",
    "ratio",
    "times_copy",
    "times_scale",
    "times_half",
    "times_ready",
]
PAIRINGS = ["half", "interleaved"]
PLACES = [(p, t) for p in ("in_place", "out_of_place") for t in ("ready", "on_the_fly")]
PLACES.append(("out_unaligned", "ready"))
SIZES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}
SMALL = "3x2+1x64"


def bench(*options):
    return json.loads(succeed("bench", "--quick", "--json", *options))


def variants(result):
    keys = ("shape", "dtype", "threads", "pairing", "placement", "tables")
    return [tuple(row[key] for key in keys) for row in result["rows"]]


# ---- JSON --------------------------------------------------------------------------------------


def test_keys_and_values():
    result = bench("--shape", SMALL + ",2x5x3+2x32", "--threads", "1")
    assert list(result) == ["machine", "version", "target", "rows"]
    assert result["machine"].endswith(" " + result["target"])
    assert re.fullmatch(r".+, \d+ cores?, \w+", result["machine"])
    for row in result["rows"]:
        assert list(row) == KEYS
        for key in ("ns", "copy_ns", "scale_ns", "gb_per_s", "ratio", "times_copy", "times_scale"):
            assert row[key] > 0, row
        for key, compared in (
            ("times_half", row["pairing"] == "interleaved"),
            ("times_ready", row["tables"] == "on_the_fly"),
        ):
            assert row[key] > 0 if compared else row[key] is None, row
        assert row["spread"] >= 0
        moved = 2 * row["tokens"] * row["heads"] * row["head_dim"] * SIZES[row["dtype"]]
        assert row["gb_per_s"] == pytest.approx(moved / row["ns"], rel=1e-3)
        assert row["ratio"] == pytest.approx(row["ns"] / row["copy_ns"], rel=1e-2, abs=1e-4)


def test_every_row_of_the_matrix_once():
    result = bench("--shape", f"decode,{SMALL}", "--threads", "1,2")
    wanted = itertools.product(
        ["1x(32+8)x128", "3x(2+1)x64"],
        ["fp32", "bf16", "fp16"],
        [1, 2],
        PAIRINGS,
        PLACES,
    )
    rows = variants(result)
    assert sorted(rows) == sorted((*others, *place) for *others, place in wanted)
    assert len(set(rows)) == len(rows)


def test_the_usual_shapes():
    # One type and thread: the whole matrix takes a while where nothing is optimised.
    rows = bench("--dtype", "bf16", "--threads", "1")["rows"]
    sizes = [(r["batch"], r["tokens"], r["heads"], r["head_dim"]) for r in rows]
    assert set(sizes) == {(1, 1, 40, 128), (1, 64, 40, 128), (1, 4096, 40, 128), (8, 4096, 24, 64)}
    assert len(rows) == 4 * 10


def test_threads_are_one_and_all_by_default():
    threads = {row["threads"] for row in bench("--shape", SMALL)["rows"]}
    assert 1 in threads and len(threads) <= 2


def test_float64_has_no_tables():
    rows = variants(bench("--shape", SMALL, "--dtype", "fp64", "--threads", "1"))
    assert rows == [
        ("3x(2+1)x64", "fp64", 1, pairing, placement, "on_the_fly")
        for pairing in PAIRINGS
        for placement in ("in_place", "out_of_place")
    ]


def test_what_is_named_twice_is_measured_once():
    twice = bench("--shape", f"{SMALL},3x(2+1)x64", "--dtype", "fp32,fp32", "--threads", "1,1")
    assert len(twice["rows"]) == 10


def test_every_target_of_this_machine():
    error = fail(2, "bench", "--target", "Z80")
    for target in re.search(r"\((.*)\)", error)[1].split(", "):
        result = bench("--shape", SMALL, "--threads", "1", "--target", target)
        assert result["target"] == target and result["machine"].endswith(target)


# ---- The page ----------------------------------------------------------------------------------


def test_page():
    page = succeed("bench", "--quick", "--shape", f"decode,cached,{SMALL}", "--threads", "1")
    lines = page.splitlines()
    assert max(map(len, lines)) <= 80 and "\x1b" not in page
    assert lines[0].startswith("rotary ")
    for title in ("1x(32+8)x128, 1 thread", "64x(32+8)x128, 1 thread", "3x(2+1)x64, 1 thread"):
        assert title in lines
    assert sum(line.split()[:1] == ["dtype"] for line in lines) == 3
    # Five references and ten variants for each of three types and shapes, and seven targets.
    assert sum(line.split()[:1] in (["fp32"], ["bf16"], ["fp16"]) for line in lines) == 135 + 7
    assert "Targets" in lines
    assert sum(" decode, " in line for line in lines) == 6


def test_verdicts_follow_from_the_figures():
    page = succeed("bench", "--quick", "--shape", "cached,4100x2+2x512", "--threads", "1")
    targets = page.split("\nTargets\n")[1]
    pattern = r"^  (.+?)  +([\d.]+) x (copy|scale|half|ready)(?:  +at most ([\d.]+)  (\w+))?$"
    found = re.findall(pattern, targets, re.M)
    assert {name for name, *_ in found} == {
        "fp32 out of cache, out of place",
        "fp32 out of cache, in place",
        "fp32 out of cache, interleaved",
        "fp32 in cache",
        "bf16 out of cache",
        "fp16 out of cache",
    }
    missed = targets.partition("Missed:")[2]
    for name, value, _, limit, verdict in found:
        if limit:
            assert verdict == ("met" if float(value) <= float(limit) else "missed"), name
        if verdict == "missed":
            assert f"  {value} x " in missed, name


def test_no_targets_for_shapes_without_any():
    page = succeed("bench", "--quick", "--shape", "700x3+1x64", "--dtype", "fp64", "--threads", "1")
    assert "Targets" not in page


def test_out_writes_the_same_json(tmp_path):
    file = tmp_path / "rows.json"
    options = ("--quick", "--shape", SMALL, "--threads", "1", "--out", file)
    assert succeed("bench", *options, "--json") == file.read_text()
    assert "Time of one call" in succeed("bench", *options)
    assert [list(row) for row in json.loads(file.read_text())["rows"]] == [KEYS] * 30


# ---- Orders ------------------------------------------------------------------------------------

ORDER_KEYS = [
    "shape",
    "dtype",
    "pairing",
    "placement",
    "threads",
    "order",
    "ns",
    "copy_ns",
    "spread",
    "times_copy",
    "times_best",
    "is_chosen",
    "is_best",
]


def test_orders():
    result = bench("--orders", "--shape", f"{SMALL},70x2+1x64", "--dtype", "fp32", "--threads", "1")
    assert list(result) == ["machine", "version", "target", "orders"]
    calls = {}
    for row in result["orders"]:
        assert list(row) == ORDER_KEYS
        key = tuple(row[name] for name in ("shape", "pairing", "placement"))
        calls.setdefault(key, []).append(row)
    places = ("in_place", "out_of_place", "out_unaligned")
    shapes = ("3x(2+1)x64", "70x(2+1)x64")
    assert list(calls) == list(itertools.product(shapes, PAIRINGS, places))
    for (shape, pairing, _), rows in calls.items():
        heads = ["columns", "lines"] + ["address"] * (pairing == "half")
        blocks = (1,) if shape.startswith("3x") else (1, 16, 64)
        expected = [f"{order}:{block}" for order in heads for block in blocks]
        # The library's choice is added where it is none of these.
        assert [row["order"] for row in rows][: len(expected)] == expected
        assert len(rows) <= len(expected) + 1
        assert sum(row["is_chosen"] for row in rows) == sum(row["is_best"] for row in rows) == 1
        best = next(row for row in rows if row["is_best"])
        assert best["ns"] == min(row["ns"] for row in rows) and best["times_best"] == 1
        assert all(row["times_best"] >= 1 and row["times_copy"] > 0 for row in rows)


def test_page_of_orders(tmp_path):
    file = tmp_path / "orders.json"
    options = ("--orders", "--quick", "--shape", SMALL, "--threads", "1", "--out", file)
    page = succeed("bench", *options)
    lines = page.splitlines()
    assert max(map(len, lines)) <= 80 and "3x(2+1)x64, 1 thread" in lines
    # Three types and places, three orders of half and two of interleaved.
    assert sum(line.split()[:1] in (["fp32"], ["bf16"], ["fp16"]) for line in lines) == 45
    assert re.search(r"within 3 % of the best order in \d+ of 18 calls", page)
    assert len(json.loads(file.read_text())["orders"]) == 45


# ---- Usage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option, text",
    [
        ("--dtype", "fp8"),
        ("--dtype", "fp32,"),
        ("--dtype", "FP32"),
        ("--dtype", "int32"),
        ("--shape", "tiny"),
        ("--shape", "decode,,batch"),
        ("--shape", "64"),
        ("--shape", "64x8x128"),
        ("--shape", "64x8+x128"),
        ("--shape", "0x8+8x128"),
        ("--shape", "-1x8+8x128"),
        ("--shape", "64x8+8x127"),
        ("--shape", "1x2x3x8+8x128"),
        ("--shape", "64x(8+8x128"),
        ("--shape", "9999999x999+1x128"),
        ("--shape", "99999999999999999999x8+8x128"),
        ("--threads", "0"),
        ("--threads", "-1"),
        ("--threads", "all"),
        ("--threads", "1.5"),
        ("--threads", "2000"),
        ("--target", "Z80"),
    ],
)
def test_bad_values_are_misuse(option, text):
    error = fail(2, "bench", "--quick", f"{option}={text}")
    assert option in error and len(error) < 200


@pytest.mark.parametrize("arguments", [["extra"], ["--no-such-option"], ["--shape"], ["--out"]])
def test_misuse(arguments):
    fail(2, "bench", *arguments)


def test_unwritable_file_is_told_before_the_work(tmp_path):
    assert "no/such" in fail(1, "bench", "--out", tmp_path / "no/such/folder.json")


def test_help():
    text = succeed("bench", "--help")
    assert text == succeed("bench", "-h")
    assert "Usage: rotary bench" in text and "Examples:" in text
    for option in ("--shape", "--dtype", "--threads", "--target", "--out", "--quick", "--json"):
        assert option in text
    assert max(map(len, text.splitlines())) <= 100
    assert "bench" in succeed("--help")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_verb(shell):
    script = succeed("completion", shell)
    for word in ("bench", "quick", "prefill", "bf16"):
        assert word in script


def test_bash_completes():
    script = (
        succeed("completion", "bash")
        + """
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rotary; echo "${COMPREPLY[*]}"; }
complete_words rotary be
complete_words rotary bench --q
complete_words rotary bench --shape pre
"""
    )
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert done.stdout.splitlines() == ["bench", "--quick", "prefill"]
