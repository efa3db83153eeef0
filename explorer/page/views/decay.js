// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Decay of scores with the distance: Su's bound, and the sum of cosines with its first zero.

import { Chart, legend } from "../chart.js";
import { count, h, s } from "../dom.js";
import { Known } from "../known.js";

const POINTS = 700;
/** Points for each doubling of the distance while the context is dragged. */
const DRAFT_POINTS = 4;

export const decay = {
  id: "decay",
  known: new Known(20000),
  title: "Decay",
  slow: true,
  caption:
    "What distance does to attention. The sum of cosines is the mean score of equal vectors: where " +
    "it is negative, a token scores less than a random one. Drag to move the distance.",

  draw(app, root, draft) {
    const last = Math.max(64, app.context);
    const context = Math.min(last, 1 << 20);
    // A search through every distance: not while the context is dragged.
    this.bounds = draft ? null : app.engine.bounds({ rope: app.rope.number, context });
    const { first_negative: zero, distance: lowest } = this.bounds?.cosine_sum ?? {};
    this.distances = draft ? lattice(last) : spread(last, POINTS, [zero, lowest]);
    const curves = this.curves(app, this.distances);
    if (!draft) this.verdict = verdict(this.bounds);
    const first = curves.bound[0];
    this.bound = curves.bound.map((value) => value / first);
    this.score = curves.score;
    const low = Math.min(-0.1, ...this.score);
    const chart = new Chart({
      width: app.width, height: app.chartHeight,
      x: { min: 1, max: last, log: true, label: "distance between query and key" },
      y: { min: low * 1.15, max: 1.06, label: "relative to distance 0",
        format: (v) => String(Number(v.toFixed(2))) },
      label: `Bound on scores and mean score of equal vectors by distance. ${draft ? "" : this.verdict}`,
    });
    chart.level(0, "", "var(--soft)");
    chart.line(this.distances.slice(1), this.bound.slice(1), { color: "var(--c1)" });
    chart.line(this.distances.slice(1), this.score.slice(1), { color: "var(--c2)" });
    const { trained } = app.rope.rope.context;
    chart.uprights([[zero, `first below zero: ${zero}`, "var(--c3)"],
      [trained, `trained ${count(trained)}`, "var(--c5)"]].filter(([at]) => at));
    this.chart = chart;
    this.mark = s("g", { "data-live": true },
      s("line", { stroke: "var(--ink)", "stroke-opacity": 0.6, y1: chart.top, y2: chart.bottom }),
      s("circle", { r: 4.5, fill: "var(--c1)", stroke: "var(--card)" }),
      s("circle", { r: 4.5, fill: "var(--c2)", stroke: "var(--card)" }));
    chart.over.prepend(this.mark); // names stay readable
    app.pick(chart, (event) => app.set({ position: Math.round(chart.valueAt(event)) }));
    root.append(chart.svg, legend([["RoFormer's bound on scores", "var(--c1)"],
      ["sum of cosines / pairs", "var(--c2)"]]),
    // That of the context before, as long as this one is dragged: the page keeps its height.
    h("p", { class: draft ? "stale" : null }, this.verdict), this.base(app, context));
    this.move(app);
  },

  /** The smallest base, which takes a second: on demand. */
  base(app, context) {
    const out = h("span", { role: "status" });
    const button = h("button", { type: "button", onclick: () => {
      out.textContent = " computing …";
      setTimeout(() => {
        try {
          const found = app.engine.base({ rope: app.rope.number, context });
          out.textContent = found === null ? " none: that takes two pairs, and no growth"
            : ` ${found.base} (${found.proof} proof; every base up to ` +
              `${found.every_base_fails_up_to} fails)`;
        } catch (error) {
          out.textContent = ` ${error.message}`;
        }
      }, 30);
    } }, `Smallest base that serves ${count(context)} positions`);
    return h("p", { class: "action" }, button, out);
  },

  /** Bound and score at distances. */
  curves(app, distances) {
    const { number } = app.rope;
    const rows = this.known.at(number, distances, (missing) => {
      const { bound, score } = app.engine.curves({ rope: number, distances: missing });
      return missing.map((_, k) => [bound[k], score[k]]);
    });
    return { bound: rows.map(([bound]) => bound), score: rows.map(([, score]) => score) };
  },

  /** Curves at the distance under the cursor, exactly. */
  at(app) {
    const distance = Math.max(0, Math.round(app.state.position));
    const exact = this.curves(app, [0, distance]);
    return { distance, bound: exact.bound[1] / exact.bound[0], score: exact.score[1] };
  },

  move(app) {
    const { distance, bound, score } = (this.now = this.at(app));
    const x = this.chart.atX(Math.min(this.chart.x.max, Math.max(1, distance)));
    const [line, first, second] = this.mark.children;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    first.setAttribute("cx", x);
    first.setAttribute("cy", this.chart.atY(bound));
    second.setAttribute("cx", x);
    second.setAttribute("cy", this.chart.atY(score));
  },

  readout(app) {
    const { distance, bound, score } = this.now ?? this.at(app);
    return [["distance", String(distance)], ["bound", String(bound)], ["mean score", String(score)],
      ["sum of cosines", String(score * app.pairs)]];
  },

  data: (app) => ({
    distances: decay.distances, bound: decay.bound, score: decay.score, bounds: decay.bounds,
  }),
};

function verdict(bounds) {
  const sum = bounds.cosine_sum;
  const dims = `${bounds.critical_dim} dims make a turn within the trained context.`;
  if (!sum) return dims;
  const least = `Its smallest value is ${sum.smallest.toPrecision(6)}, at distance ${sum.distance}.`;
  return sum.first_negative
    ? `At distance ${sum.first_negative} the sum of cosines is negative for the first time. ` +
      `${least} ${dims}`
    : `The sum of cosines is never negative here. ${least} ${dims}`;
}

/** 0, distances that do not depend on the last one, and that. */
function lattice(last) {
  const values = new Set([0]);
  for (let k = 0; 2 ** (k / DRAFT_POINTS) < last; ++k) values.add(Math.round(2 ** (k / DRAFT_POINTS)));
  return [...values.add(last)].sort((a, b) => a - b);
}

/** 0, about `points` whole distances, closer together where they are small, and the given ones. */
function spread(last, points, given) {
  const values = new Set([0, ...given.filter((distance) => distance > 0)]);
  for (let k = 0; k <= points; ++k) values.add(Math.round(last ** (k / points)));
  return [...values].sort((a, b) => a - b);
}
