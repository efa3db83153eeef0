# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.inspect gives the output of the command as data, text and HTML."""

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from definition import MODELS, ROOT

import rotary

PATHS = sorted(MODELS.glob("*.json"))


def command(*arguments):
    done = subprocess.run(
        [os.environ.get("ROTARY_COMMAND", ROOT / "build" / "bin" / "rotary"), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "80"},
    )
    return done.stdout


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_data_equals_inspect_json(path):
    assert rotary.inspect(path).data == json.loads(command("inspect", str(path), "--json"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_text_equals_inspect_output(path):
    said = {line.rstrip() for line in command("inspect", str(path)).splitlines()}
    shown = repr(rotary.inspect(str(path))).splitlines()
    assert len(shown) > 20
    assert [line for line in shown if line.rstrip() not in said] == []
    assert max(len(line) for line in shown) <= 80


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_html_is_well_formed_and_complete(path):
    seen = rotary.inspect(path)
    html = seen._repr_html_()
    tree = ElementTree.fromstring(html)  # every tag is closed
    ns = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall("table")) == len(seen.ropes)
    assert len(tree.findall(f"{ns}svg")) == len(seen.ropes)
    for svg, rope in zip(tree.findall(f"{ns}svg"), seen.ropes):
        turning = int(np.sum(rope.wavelengths < 1e18))
        assert len(svg.findall(f"{ns}rect")) == 2 * turning
        heights = [float(bar.get("height")) for bar in svg.findall(f"{ns}rect")]
        assert min(heights) >= 0 and max(heights) <= 180
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_html_escapes_text_of_files():
    config = json.loads((MODELS / "llama-3.1-8b.json").read_text())
    html = rotary.inspect({**config, "model_type": "<script>\x1b[2J"})._repr_html_()
    assert "<script>" not in html


def test_a_dict_and_one_of_several_ropes():
    path = MODELS / "gemma-3-4b.json"
    seen = rotary.inspect(json.loads(path.read_text()))
    assert seen.source == ""
    names = [rope.name for rope in seen.ropes]
    assert len(names) > 1
    assert [rope.name for rope in rotary.inspect(path, names[1]).ropes] == [names[1]]
    assert seen.rope(names[1]).rope == rotary.Model.read(path).rope(names[1])
    assert seen.model_type == "gemma3"


def test_the_context_in_use():
    dynamic = {
        "model_type": "llama", "hidden_size": 512, "num_attention_heads": 4,
        "max_position_embeddings": 2048, "rope_theta": 1e4,
        "rope_scaling": {"type": "dynamic", "factor": 2.0},
    }  # fmt: skip
    short, long = rotary.inspect(dynamic), rotary.inspect(dynamic, context=16384)
    assert long.data["ropes"][0]["context_in_use"] == 16384
    assert (long.ropes[0].wavelengths >= short.ropes[0].wavelengths).all()
    assert long.ropes[0].wavelengths[-1] > short.ropes[0].wavelengths[-1]


def test_wavelengths_are_those_of_the_rope():
    path = MODELS / "llama-3.1-8b.json"
    seen = rotary.inspect(path).ropes[0]
    np.testing.assert_allclose(seen.wavelengths, rotary.wavelengths(path), rtol=1e-15)
    assert (seen.unscaled_wavelengths <= seen.wavelengths * (1 + 1e-12)).all()
    assert set(seen.pair_axes) == {0}
