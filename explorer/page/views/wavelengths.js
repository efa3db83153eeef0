// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Wavelengths of the pairs against the trained and the wanted context.

import { Chart, legend } from "../chart.js";
import { count, s, si } from "../dom.js";

export const wavelengths = {
  id: "wavelengths",
  title: "Wavelengths",
  caption:
    "Positions per full turn of each pair. Hatched pairs are slower than the trained context: they " +
    "never complete a turn in training, and longer contexts bring angles that training never saw.",

  draw(app, root) {
    const { rope } = app;
    const trained = rope.rope.context.trained ?? 0;
    const shown = rope.wavelengths.filter((w) => w !== null);
    const pairs = rope.wavelengths.length;
    const chart = new Chart({
      width: app.width, height: app.chartHeight,
      x: { min: -0.7, max: pairs - 0.3, label: "pair", format: String },
      y: { min: 1, max: top(app), log: true,
        label: "positions per turn" },
      label: `Wavelengths of ${pairs} pairs, from ${si(Math.min(...shown))} to ` +
        `${si(Math.max(...shown))} positions. ${rope.sentences.join(" ")}`,
    });
    chart.svg.append(s("defs", {}, s("pattern", {
      id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    }, s("rect", { width: 6, height: 6, fill: "var(--card)" }),
    s("rect", { width: 3, height: 6, fill: "var(--c1)", "fill-opacity": 0.75 }))));
    const step = (chart.right - chart.left) / (pairs + 0.4);
    const wide = Math.max(1, step * 0.78);
    this.bars = rope.wavelengths.map((value, pair) => {
      const top = chart.atY(value ?? chart.y.max);
      const bar = s("rect", {
        x: chart.atX(pair) - wide / 2, y: top, width: wide, height: chart.bottom - top,
        rx: Math.min(2, wide / 3),
        fill: value === null ? "var(--grid)"
          : trained > 0 && value > trained ? "url(#hatch)" : axisColor(rope, pair),
      });
      chart.plot.append(bar);
      const before = rope.unscaled[pair];
      if (before !== null && value !== null && Math.abs(before / value - 1) > 1e-9) {
        chart.plot.append(s("line", {
          x1: chart.atX(pair) - wide / 2, x2: chart.atX(pair) + wide / 2,
          y1: chart.atY(before), y2: chart.atY(before), stroke: "var(--ink)", "stroke-width": 1.6,
        }));
      }
      return bar;
    });
    if (trained > 0) {
      chart.level(trained, `trained ${count(trained)}`, "var(--c2)", { below: true, at: "start" });
    }
    this.cursor = s("path", { fill: "var(--ink)", "data-live": true });
    chart.over.append(this.cursor);
    this.chart = chart;
    this.wanted = [];
    this.stretch(app);
    app.pick(chart, (event) => app.set({
      pair: Math.min(pairs - 1, Math.max(0, Math.round(chart.valueAt(event)))),
    }));
    root.append(chart.svg, legend(legendItems(rope, trained)));
    this.move(app);
  },

  /** Draws the line of the wanted context; false if the picture must be drawn anew for it. */
  stretch(app) {
    if (this.chart.y.max !== top(app)) return false;
    for (const element of this.wanted) element.remove();
    this.wanted = app.context === app.rope.rope.context.trained ? []
      : this.chart.level(app.context, `wanted ${count(app.context)}`, "var(--c3)", { at: "start" });
    return true;
  },

  move(app) {
    const x = this.chart.atX(app.state.pair);
    const y = this.chart.bottom + 1;
    this.cursor.setAttribute("d", `M${x} ${y}l-4 5.5h8z`);
  },

  readout(app) {
    const { rope, state } = app;
    const value = rope.wavelengths[state.pair];
    const before = rope.unscaled[state.pair];
    return [
      ["pair", String(state.pair)],
      ["wavelength", value === null ? "not rotated" : String(value)],
      ["without scaling", before === null ? "–" : String(before)],
      ["turns in the wanted context", value === null ? "0" : si(app.context / value)],
    ];
  },

  data: (app) => ({
    wavelengths: app.rope.wavelengths, unscaled: app.rope.unscaled,
    frequencies: app.rope.rope.frequencies, trained: app.rope.rope.context.trained,
    wanted: app.context,
  }),
};

/** The end of the scale: a power of ten above every wavelength and context. */
function top({ rope, context }) {
  const longest = Math.max(10, context, rope.rope.context.trained ?? 0, ...rope.wavelengths);
  return 10 ** Math.ceil(Math.log10(longest) + 0.15);
}

const AXIS_COLORS = ["var(--c1)", "var(--c4)", "var(--c5)", "var(--c6)"];

/** The colour of the axis that rotates a pair. */
export function axisColor(rope, pair) {
  const axis = rope.pair_axes[pair];
  return rope.rope.axes.length === 1 || axis < 0 ? AXIS_COLORS[0]
    : AXIS_COLORS[axis % AXIS_COLORS.length];
}

function legendItems(rope, trained) {
  const items = [];
  const { axes } = rope.rope;
  if (axes.length > 1) {
    axes.forEach((name, k) => items.push([`axis ${name}`, AXIS_COLORS[k % AXIS_COLORS.length]]));
  } else {
    items.push(["wavelength", "var(--c1)"]);
  }
  const scaled = rope.unscaled.some((u, k) => u !== null && rope.wavelengths[k] !== null &&
    Math.abs(u / rope.wavelengths[k] - 1) > 1e-9);
  if (scaled) items.push(["without scaling", "var(--ink)"]);
  if (trained > 0 && rope.wavelengths.some((w) => w > trained)) {
    items.push(["no full turn in training (hatched)", "var(--c1)", "3 2"]);
  }
  return items;
}
