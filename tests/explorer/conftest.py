# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""A Chromium, and pages in it that fail a test on any console error and any request."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from page import PAGE


@pytest.fixture(scope="session")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright  # not needed by the tests with Node

    program = os.environ.get("ROTARY_CHROMIUM") or shutil.which("chromium")
    assert program, "Chromium is needed (Debian: chromium)"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser) -> Iterator[Callable]:
    """show(fragment="", width=1280, theme="light", page=PAGE): the loaded page."""
    contexts = []
    faults: list[str] = []

    def open_page(fragment="", *, width=1280, theme="light", page=PAGE):
        context = browser.new_context(
            viewport={"width": width, "height": 844 if width < 500 else 860},
            color_scheme=theme,
            has_touch=width < 500,
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda m: faults.append(f"console {m.type}: {m.text}"))
        tab.on("pageerror", lambda e: faults.append(f"error: {e}"))
        url = page.resolve().as_uri()
        tab.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((url, "data:", "blob:"))
                else faults.append(f"request {r.url}")
            ),
        )
        tab.goto(url + fragment)
        tab.wait_for_selector("body.ready")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
