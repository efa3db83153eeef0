# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary.explore: the page of Python, also inside a notebook's frame."""

import json

from page import ROOT, command_json

import rotary

LLAMA = ROOT / "examples/models/llama-3.1-8b.json"
FREQUENCIES = "rotaryExplorer.app.rope.rope.frequencies"


def test_page_of_python(show, tmp_path) -> None:
    rope = command_json("inspect", LLAMA)["ropes"][0]
    for model in (LLAMA, json.loads(LLAMA.read_text()), rotary.Model.read(LLAMA)):
        page = rotary.explore(model).save(tmp_path / "page.html")
        assert show(page=page).evaluate(FREQUENCIES) == rope["frequencies"]


def test_notebook_shows_the_page(browser, tmp_path) -> None:
    out = tmp_path / "notebook.html"
    out.write_text(f"<!doctype html><body>{rotary.explore(LLAMA)._repr_html_()}")
    tab = browser.new_page()
    faults = []
    tab.on("pageerror", lambda e: faults.append(str(e)))
    tab.on("console", lambda m: faults.append(m.text))
    tab.goto(out.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator("body.ready").wait_for()
    frame.locator("#tab-vector").click()
    assert frame.locator("svg.dials").count() == 1
    tab.wait_for_timeout(300)  # the address is remembered, or not, without an error
    assert faults == []
    tab.close()
