# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary bounds, decay, precision and map: numbers, pages and pictures."""

import json
import struct
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest
from command import EXAMPLES, fail, llama, succeed, write_config

PLAIN = ("--dim", "128", "--base", "10000")


def values(*arguments):
    return json.loads(succeed(*arguments, "--json"))


def test_bounds_of_plain_rope():
    found = values("bounds", *PLAIN, "--context", "4096")
    assert found["critical_dim"] == 92  # Llama 2, as published
    assert found["cosine_sum"]["first_negative"] == 1707
    assert found["smallest_base"]["base"] == pytest.approx(26952.3392546, rel=1e-9)
    assert found["smallest_base"]["proof"] == "interval"
    assert found["smallest_base"]["undecided"] == []
    page = succeed("bounds", *PLAIN, "--context", "4096")
    assert "does not serve 4096 positions: at distance 1707" in " ".join(page.split())
    assert "every base from 1 to 26952.33" in page


def test_bounds_of_models():
    llama31 = EXAMPLES / "llama-3.1-8b.json"
    found = values("bounds", llama31)
    assert found["trained_context"] == 8192 and found["smallest_base"]["proof"] == "grid"
    assert "serves 8192 positions" in succeed("bounds", llama31)
    # M-RoPE: a text token has the same position on all axes.
    assert values("bounds", EXAMPLES / "qwen3-vl-text.json", "--context", "256")["cosine_sum"]


def test_bounds_without_a_sum_of_cosines(tmp_path):
    xpos = llama(rope_scaling={"rope_type": "xpos"})
    assert values("bounds", write_config(tmp_path, xpos))["smallest_base"] is None
    assert "several axes or growth" in succeed("bounds", write_config(tmp_path, xpos))


def test_decay_has_the_growth_of_xpos(tmp_path):
    plain = values("decay", write_config(tmp_path, llama()), "--distances", "100")
    path = write_config(tmp_path, llama(rope_scaling={"rope_type": "xpos"}))
    grown = values("decay", path, "--distances", "100")
    f = 10000.0 ** (-np.arange(32) / 32)
    m = np.arange(101)[:, None]
    zeta = (np.arange(32) / 32 + 0.4) / 1.4
    np.testing.assert_allclose(plain["score"], np.cos(m * f).mean(1), atol=1e-12)
    expected = (zeta ** (m / 512) * np.cos(m * f)).mean(1)
    np.testing.assert_allclose(grown["score"], expected, atol=1e-12)
    sums = np.abs(np.cumsum(np.exp(1j * m * f), axis=1)).mean(1)
    np.testing.assert_allclose(plain["bound"], sums, rtol=1e-12)
    page = succeed("decay", path, "--distances", "100")
    assert "Score of equal vectors" in page and "distances 0 to 100" in page


def test_decay_of_a_receptive_field(tmp_path):
    scaling = {"rope_type": "receptive_field", "alpha": 0.3, "rho": 0.5}
    found = values("decay", write_config(tmp_path, llama(rope_scaling=scaling)))
    parts, x = found["receptive_field"], np.asarray(found["distances"])
    angle = parts["phi"] * x
    np.testing.assert_allclose(
        found["score"],
        np.cos(angle) * parts["a"] - np.sin(angle) * parts["b"],
        atol=1e-12,
    )


def test_precision_of_a_model():
    found = values("precision", EXAMPLES / "llama-3.1-8b.json")
    assert found["positions"][-1] == 131071
    methods = {entry["method"]: entry for entry in found["methods"]}
    assert 1e-3 < methods["float32"]["angle_error"][-1] < 131072 * 2**-23
    assert methods["bf16 angle"]["value_error"][-1] > 1
    assert methods["bf16 table"]["value_error"][0] > 2**-11
    page = succeed("precision", EXAMPLES / "llama-3.1-8b.json")
    assert "131071" in page and "fast math" in page


def test_map_of_scores():
    found = values("map", *PLAIN, "--size", "16")
    scores = np.reshape(found["values"], (16, 16))
    distance = np.subtract.outer(np.arange(16), np.arange(16))
    f = 10000.0 ** (-np.arange(64) / 64)
    np.testing.assert_allclose(scores, np.cos(distance[..., None] * f).mean(-1), atol=1e-12)
    page = succeed("map", *PLAIN, "--size", "16")
    assert "query position down" in page and "@" in page and "\x1b" not in page


def test_map_of_two_axes():
    model = EXAMPLES / "qwen3-vl-text.json"
    found = values("map", model, "--size", "8")
    assert (found["row_label"], found["column_label"]) == ("h apart", "w apart")
    scores = np.reshape(found["values"], (9, 9))
    assert scores[4, 4] == pytest.approx(1) and scores.max() == pytest.approx(1)
    assert fail(1, "map", model, "--kind", "plane").count("axes") == 1


@pytest.mark.parametrize("kind", ["scores", "phases", "plane"])
def test_pictures(tmp_path, kind):
    svg, png = tmp_path / "map.svg", tmp_path / "map.png"
    assert succeed("map", *PLAIN, "--kind", kind, "--size", "32", "-o", svg) == ""
    root = ET.fromstring(svg.read_text())
    assert root.tag.endswith("svg") and len(list(root.iter())) > 32
    if "no libpng" in fail(2, "map", *PLAIN, "-o", "map.jpg"):
        assert "no libpng" in fail(2, "map", *PLAIN, "-o", png) and not png.exists()
        return
    succeed("map", *PLAIN, "--kind", kind, "--size", "32", "-o", png)
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and colour == 2 and 256 <= max(width, height) <= 512
    start = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    rows = zlib.decompress(data[start + 4 : start + 4 + length])
    assert len(rows) == height * (1 + 3 * width)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
