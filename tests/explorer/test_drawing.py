# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What is drawn, where, and what long drags leave behind."""

import pytest

CROSSINGS = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)]
    .map((element) => [element, element.getBoundingClientRect()]);
  const lines = all("svg.chart g[clip-path] > line").filter(([, b]) => b.height > b.width);
  const names = all("svg.chart text[font-weight]");
  return { lines: lines.length, names: names.length, crossings: names.flatMap(([name, a]) =>
    lines.filter(([, b]) => b.left > a.left + 1 && b.left < a.right - 1 && b.top < a.bottom - 3)
      .map(() => name.textContent)) };
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("context", [1024, 3000, 8192, 65536, 1 << 20])
def test_names_in_decay_cross_no_line(show, width, context) -> None:
    found = show(f"#v=decay&m=llama-2-7b&c={context}", width=width).evaluate(CROSSINGS)
    assert found["crossings"] == []
    assert found["names"] >= found["lines"] == (context > 1707) + (context >= 4096)


def test_long_drags_keep_the_rope(show) -> None:
    """Compare makes a rope at each step; that of the model stays."""
    tab = show("#v=compare&m=llama-2-7b&x=recipe%3Ayarn,recipe%3Adynamic")
    shown = tab.evaluate("""() => {
      const { app } = rotaryExplorer;
      for (let k = 0; k < 150; ++k) app.set({ context: 5000 + 100 * k });
      app.draw();
      app.set({ view: "vector", position: 7 });
      return app.view.data(app).cos.length;
    }""")
    assert shown == 64
    assert tab.locator("#panel .error").count() == 0


def test_a_dragged_comparison_is_that_at_rest(show) -> None:
    """While the context is dragged, wavelengths are made from frequencies: the same bits."""
    tab = show("#v=compare&m=llama-2-7b&c=8192&x=recipe%3Ayarn,")
    dragged, rested = tab.evaluate("""() => {
      const { app } = rotaryExplorer;
      const now = () => app.view.shown.map(({ rope }) => rope.wavelengths);
      for (let k = 1; k < 5; ++k) app.set({ context: 8192 + 1000 * k });
      const before = now();
      app.draw();
      return [before, now()];
    }""")
    assert len(dragged) == 2
    assert dragged == rested


def test_one_pair_is_shown_in_every_view(show) -> None:
    config = """{"model_type": "llama", "hidden_size": 8, "num_attention_heads": 4, "head_dim": 2,
      "rope_theta": 10000.0, "max_position_embeddings": 4096}"""
    tab = show()
    assert tab.evaluate(
        "(text) => rotaryExplorer.app.openBytes(new TextEncoder().encode(text), 'one.json')", config
    )
    for view in tab.evaluate("rotaryExplorer.app.views.map((view) => view.id)"):
        tab.evaluate("(view) => rotaryExplorer.app.set({ view, context: 16384 })", view)
        assert tab.locator("#panel .error").count() == 0, view
    assert tab.locator("#panel details.engine").count() == 3


def test_colours_of_two_axes_are_scores_of_the_library(show) -> None:
    tab = show("#m=qwen2-vl-7b&v=maps&map=plane&z=5")
    shown, exact = tab.evaluate("""() => {
      const { app } = rotaryExplorer;
      const side = Math.sqrt(app.view.values.length);
      const half = (side - 1) / 2;
      const places = [[0, 0], [3, 7], [-3, 7], [3, -7], [-48, 48], [48, -1], [0, -20]];
      return [places.map(([h, w]) => app.view.values[(h + half) * side + w + half]),
        [...app.engine.scores(app.rope.number, places.flatMap(([h, w]) => [5, h, w]), 3)]];
    }""")
    assert shown == pytest.approx(exact, abs=1e-13)
    assert len(set(exact)) >= 4
