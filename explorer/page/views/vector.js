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
    const width = app.width;
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
    this.paths = new Map(); // by colour: all hands, and all their ends, are one path each
    for (let pair = 0; pair < pairs; ++pair) {
      const x = (pair % columns + 0.5) * cell;
      const y = Math.floor(pair / columns) * high + r + 4;
      const color = axisColor(app.rope, pair);
      const ring = s("circle", { cx: x, cy: y, r, fill: "var(--tint)", stroke: "var(--grid)",
        "stroke-width": 1.5 });
      const dial = s("g", { class: "dial", onclick: () => app.set({ pair }) }, ring,
        s("text", { x, y: y + r + 13, "text-anchor": "middle", fill: "var(--soft)",
          "font-size": 11 }, String(pair)));
      svg.append(dial);
      this.rings.push(ring);
      this.hands.push({ color, x, y, r: r - 4 });
    }
    for (const { color } of this.hands) {
      if (this.paths.has(color)) continue;
      const lines = (wide) => s("path", { stroke: color, "stroke-width": wide, fill: "none",
        "stroke-linecap": "round", "pointer-events": "none" });
      const paths = [lines(2.6), lines(6.8)];
      this.paths.set(color, paths);
      svg.append(...paths);
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
    const tenth = (value) => Math.round(10 * value) / 10;
    const drawn = new Map([...this.paths.keys()].map((color) => [color, ["", ""]]));
    this.hands.forEach(({ color, x, y, r }, pair) => {
      const tip = `${tenth(x + (r * cos[pair]) / unit)} ${tenth(y - (r * sin[pair]) / unit)}`;
      const texts = drawn.get(color);
      texts[0] += `M${tenth(x)} ${tenth(y)}L${tip}`;
      texts[1] += `M${tip}h0`;
    });
    for (const [color, texts] of drawn) {
      this.paths.get(color).forEach((path, k) => path.setAttribute("d", texts[k]));
    }
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
