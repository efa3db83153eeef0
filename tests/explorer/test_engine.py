# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The WebAssembly inside the page, run by Node, against this machine's library: bit for bit."""

import base64
import functools
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from page import PAGE, ROOT, command_json, golden_models, hostile_files, run_command

import rotary

POSITIONS = [0, 1, 17, 1000, 131071, 2**24 - 1, 2**31 + 1]


def test_page_has_the_modules_of_this_tree():
    """`make explorer` writes the page; that its library is this one, the tests below show."""
    sys.path.insert(0, str(ROOT / "explorer"))
    import pack

    modules = pack.ascii_script(pack.pack_modules(ROOT / "explorer/page/main.js"))
    styles = (ROOT / "explorer/page/style.css").read_text(encoding="utf-8").strip()
    page = PAGE.read_text(encoding="ascii")
    assert modules in page, (
        "docs/explorer/index.html is older than explorer/page: run make explorer"
    )
    assert styles in page, "docs/explorer/index.html is older than its styles: run make explorer"
    assert PAGE.with_name("look.html").read_text(encoding="ascii") == pack.pack_look()


def run_page(files: dict[str, bytes], positions=(), calls=()) -> dict[str, dict]:
    node = shutil.which("node")
    assert node, "Node is needed (Debian: nodejs)"
    request = [
        {
            "source": name,
            "base64": base64.b64encode(content).decode(),
            "positions": list(positions),
            "calls": list(calls),
        }
        for name, content in files.items()
    ]
    done = subprocess.run(
        [node, str(ROOT / "tests/explorer/page_engine.mjs"), str(PAGE)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(files, json.loads(done.stdout), strict=True))


@functools.cache
def golden_answers() -> dict[str, dict]:
    return run_page({name: text.encode() for name, text in golden_models().items()}, POSITIONS)


def native(text: str) -> rotary.Inspection:
    return rotary.inspect(json.loads(text))


def test_there_are_many_golden_models() -> None:
    assert len(golden_models()) > 300


def test_frequencies_and_recipes_of_every_golden_model() -> None:
    for name, text in golden_models().items():
        page = golden_answers()[name]
        here = native(text)
        assert [rope["rope"] for rope in page["ropes"]] == [rope.data for rope in here.ropes], name


def test_texts_of_every_golden_model() -> None:
    for name, text in golden_models().items():
        for shown, here in zip(golden_answers()[name]["ropes"], native(text).ropes, strict=True):
            assert shown["properties"] == [list(row) for row in here.rows], name
            assert shown["sentences"] == list(here.sentences), name
            assert shown["rope"]["assumed"] == list(here.rope.assumed), name
            assert shown["rope"]["warnings"] == list(here.rope.warnings), name


def test_wavelengths_of_every_golden_model() -> None:
    for name, text in golden_models().items():
        for shown, here in zip(golden_answers()[name]["ropes"], native(text).ropes, strict=True):
            ours = [w if w <= 1e18 else None for w in here.wavelengths.tolist()]
            assert shown["wavelengths"] == ours, name


def test_cos_and_sin_of_every_golden_model() -> None:
    for name, text in golden_models().items():
        for shown, here in zip(golden_answers()[name]["ropes"], native(text).ropes, strict=True):
            rope = here.rope.make_rope()
            axes = len(here.rope.axes)
            ids = np.tile(np.array(POSITIONS), (axes, 1)) if axes > 1 else np.array(POSITIONS)
            cos, sin = rope.cos_sin(ids, dtype="float64")
            assert shown["cos"] == np.asarray(cos).ravel().tolist(), name
            assert shown["sin"] == np.asarray(sin).ravel().tolist(), name


def test_analysis_is_that_of_the_command(tmp_path: pathlib.Path) -> None:
    file = ROOT / "examples/models/llama-3.1-8b.json"
    positions = [1, 15, 255, 4095, 131071]
    answer = run_page(
        {file.name: file.read_bytes()},
        calls=[
            ("curves", {"distances": list(range(257))}),
            ("bounds", {"context": 4096}),
            ("base", {"context": 4096}),
            ("precision", {"positions": positions}),
        ],
    )[file.name]
    decay = command_json("decay", file)
    assert answer["curves"] == {"bound": decay["bound"], "score": decay["score"]}
    bounds = command_json("bounds", file, "--context", 4096)
    assert answer["bounds"]["cosine_sum"] == bounds["cosine_sum"]
    assert answer["bounds"]["turns"] == bounds["turns"]
    assert answer["bounds"]["critical_dim"] == bounds["critical_dim"]
    assert answer["base"] == bounds["smallest_base"]
    precision = command_json("precision", file, "--context", 131072)
    for method, ours in zip(precision["methods"], answer["precision"]["methods"], strict=True):
        assert [ours["value_error"][k] for k in (0, 1, 2, 3, 4)] == [
            method["value_error"][precision["positions"].index(p)] for p in positions
        ]


def test_hostile_files_give_the_message_of_the_command(tmp_path: pathlib.Path) -> None:
    files = {}
    for name, content in hostile_files().items():
        path = tmp_path / name
        path.write_bytes(content)
        files[str(path)] = content
    for path, answer in run_page(files, [0]).items():
        done = run_command("inspect", path, "--json")
        if done.returncode == 0:
            assert [r["rope"] for r in answer["ropes"]] == json.loads(done.stdout)["ropes"], path
        else:
            assert answer == {"error": done.stderr.removeprefix("rotary: ").rstrip("\n")}, path
