# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The page of `roformer look` in Chromium; tests/roformer/test_look.py tests its weights."""

import base64
import json
import struct

import pytest
from page import ROOT

EMPTY = '<script type="application/json" id="given">null</script>'
TOKENS = ["[CLS]", "one", "two", "<b>", "[SEP]"]


def weights(first: float) -> str:
    """Two heads; every row attends to the first token by this much, and evenly to the others."""
    row = [first] + [(1 - first) / 4] * 4
    values = [round(65535 * value) for _ in range(2) for _ in TOKENS for value in row]
    return base64.b64encode(struct.pack(f"<{len(values)}H", *values)).decode()


@pytest.fixture
def page(tmp_path):
    layer = {"rotated": weights(0.6), "unrotated": weights(0.2)}
    data = {
        "source": "base",
        "text": "one two",
        "tokens": TOKENS,
        "heads": 2,
        "layers": [layer] * 3,
    }
    text = (ROOT / "docs/explorer/look.html").read_text(encoding="ascii")
    assert EMPTY in text
    given = json.dumps(data).replace("<", "\\u003c")
    out = tmp_path / "look.html"
    out.write_text(text.replace(EMPTY, EMPTY.replace("null", given)))
    return out


@pytest.mark.parametrize("width", [1280, 390])
def test_shows_layers_heads_and_both_weights(show, page, width) -> None:
    tab = show(page=page, width=width)
    assert tab.locator("#heads button").count() == 6
    assert "0.600" in tab.inner_text("#readout")
    assert "0.200" in tab.inner_text("#readout")
    tab.click("[aria-label='Layer 2, head 1']")
    assert tab.inner_text("#title") == "Layer 2, head 1"
    tab.click("[data-choice=difference]")
    assert tab.evaluate("rotaryLook.weights(0, 0, 'difference')[0]") == pytest.approx(0.4, abs=1e-4)
    tab.keyboard.press("ArrowLeft")
    assert tab.inner_text("#title") == "Layer 2, head 0"
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
