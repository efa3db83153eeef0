# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels, contrast, sizes of targets and reachability by keyboard, in every view."""

import pytest
from test_page import VIEWS

# What each element is called, as a screen reader finds it; [] if all have a name.
NAMELESS = """() => [...document.querySelectorAll(
  "button, select, input, textarea, svg[role], [role=tabpanel], dialog, aside, a")]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() ||
    document.getElementById(e.getAttribute("aria-labelledby"))?.textContent ||
    (e.labels && [...e.labels].some((l) => l.textContent.trim()))))
  .map((e) => e.outerHTML.slice(0, 120))"""

# Texts whose contrast with what is behind them is below 4.5 (WCAG AA).
FAINT = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length >= 3 && (color[3] ?? 1) === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest("script, style, noscript, option")) continue;
    const style = getComputedStyle(e);
    const isSvg = e instanceof SVGElement;
    if (isSvg && e.previousElementSibling?.tagName === "rect") continue; // text on a cell
    const color = parse(isSvg ? style.fill : style.color);
    const [a, b] = [light(color), light(behind(e))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push(`${e.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""

SMALL = """() => [...document.querySelectorAll("button, select, input:not([type=file])")]
  .filter((e) => e.checkVisibility())
  .map((e) => [e.id || e.textContent, e.getBoundingClientRect()])
  .filter(([, box]) => box.width < 20 || box.height < 18).map(([name]) => name)"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_and_contrast(show, width, theme) -> None:
    tab = show("#m=qwen2-vl-7b", width=width, theme=theme)
    for view in VIEWS:
        tab.evaluate("(v) => document.getElementById(`tab-${v}`).click()", view)
        for check in (NAMELESS, FAINT, SMALL):
            assert tab.evaluate(check) == [], (view, check[:60])


def test_document_has_a_language_and_headings(show) -> None:
    tab = show()
    assert tab.evaluate("document.documentElement.lang") == "en"
    assert tab.locator("h1").count() == 1
    assert tab.locator("main").count() == 1
    assert tab.evaluate(
        "new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size ==="
        " document.querySelectorAll('[id]').length"
    )


def test_every_control_is_reached_by_keyboard(show) -> None:
    tab = show()
    wanted = {"model", "open", "paste", "tour", "share", "theme", "position", "pair", "context"}
    seen = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate("document.activeElement.id"))
    assert wanted <= seen


def test_pictures_say_what_they_show(show) -> None:
    tab = show()
    for view in VIEWS:
        tab.click(f"#tab-{view}")
        for label in tab.evaluate(
            "[...document.querySelectorAll('svg.chart')].map((e) => e.getAttribute('aria-label'))"
        ):
            assert len(label) > 20, view
