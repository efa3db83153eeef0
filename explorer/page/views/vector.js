// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A vector turning: every pair as a dial at the position.

import { h, s } from "../dom.js";
import { axisColor } from "./wavelengths.js";

export const vector = {
  id: "vector",
  title: "Vector",
  caption:
    "A head at one position. Each dial is a pair of its elements, turned by its own frequency: " +
    "together they are the position. Drag the position, or press play.",

  draw(app, root) {
    const { pairs } = app;
    const width = root.clientWidth;
    const columns = [32, 24, 16, 12, 8, 6].find((n) => width / n >= 46) ?? 6;
    const cell = width / columns;
    const rows = Math.ceil(pairs / columns);
    const r = Math.min(24, cell * 0.36);
    const high = 2 * r + 24;
    const svg = s("svg", { viewBox: `0 0 ${width} ${rows * high + 4}`, width,
      height: rows * high + 4, class: "chart dials", role: "img",
      "aria-label": `${pairs} dials, one for each pair` });
    this.hands = [];
    this.rings = [];
    for (let pair = 0; pair < pairs; ++pair) {
      const x = (pair % columns + 0.5) * cell;
      const y = Math.floor(pair / columns) * high + r + 4;
      const color = axisColor(app.rope, pair);
      const ring = s("circle", { cx: x, cy: y, r, fill: "var(--tint)", stroke: "var(--grid)",
        "stroke-width": 1.5 });
      const hand = s("line", { x1: x, y1: y, stroke: color, "stroke-width": 2.6,
        "stroke-linecap": "round" });
      const dot = s("circle", { r: 3.4, fill: color });
      const dial = s("g", { class: "dial", onclick: () => app.set({ pair }) }, ring, hand, dot,
        s("text", { x, y: y + r + 13, "text-anchor": "middle", fill: "var(--soft)",
          "font-size": 11 }, String(pair)));
      svg.append(dial);
      this.rings.push(ring);
      this.hands.push({ hand, dot, x, y, r: r - 4 });
    }
    this.svg = svg;
    root.append(svg, h("p", { class: "note" },
      "An arrow to the right is an angle of 0; angles grow counter-clockwise."));
    this.chosen = -1;
    this.move(app);
  },

  /** The wanted context changes nothing here. */
  stretch(app) {
    this.move(app);
    return true;
  },

  move(app) {
    const { cos, sin } = app.now();
    const unit = app.rope.rope.scale;
    this.hands.forEach(({ hand, dot, x, y, r }, pair) => {
      const tipX = (x + (r * cos[pair]) / unit).toFixed(1);
      const tipY = (y - (r * sin[pair]) / unit).toFixed(1);
      hand.setAttribute("x2", tipX);
      hand.setAttribute("y2", tipY);
      dot.setAttribute("cx", tipX);
      dot.setAttribute("cy", tipY);
    });
    if (this.chosen !== app.state.pair) {
      this.rings[this.chosen]?.setAttribute("stroke", "var(--grid)");
      this.rings[app.state.pair].setAttribute("stroke", "var(--ink)");
      this.chosen = app.state.pair;
    }
  },

  readout(app) {
    const { cos, sin } = app.at();
    return [["position", String(app.state.position)], ["pair", String(app.state.pair)],
      ["cos", String(cos)], ["sin", String(sin)]];
  },

  data(app) {
    const { cos, sin } = app.now();
    return { position: app.state.position, cos: [...cos], sin: [...sin] };
  },
};
