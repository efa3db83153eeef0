// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Errors of cos and sin in float32, bfloat16 and fast math, against the position.

import { Chart, geometric, legend } from "../chart.js";
import { count, s, si } from "../dom.js";
import { Known } from "../known.js";

const STYLES = {
  float32: ["var(--c1)", null],
  "bf16 table": ["var(--c5)", "7 3"],
  "bf16 angle": ["var(--c2)", null],
  "fast math": ["var(--c4)", "2 3"],
};
/** 10 with the exponent raised. */
const power = (value) => `10${String(Math.round(Math.log10(value)))
  .replace(/./g, (c) => (c === "-" ? "\u207b" : "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c]))}`;

const BFLOAT16_ROUNDING = 2 ** -9;
const POSITIONS = 90;

export const precision = {
  id: "precision",
  known: new Known(5000),
  title: "Precision",
  slow: true,
  caption:
    "The largest error of cos or sin over the pairs, by position, for four ways to compute them. " +
    "The library itself stays below 1e−7 everywhere. Above the dashed line an error exceeds what " +
    "storing the result in bfloat16 loses anyway.",

  draw(app, root, draft) {
    const last = Math.max(1024, app.context, app.rope.rope.context.extended ?? 0) - 1;
    // While the context is dragged, positions that do not depend on it: they are known.
    const some = draft ? powersBelow(last) : geometric(1, last, POSITIONS).map(Math.round);
    this.positions = [...new Set(some)];
    this.methods = this.errors(app, this.positions);
    const chart = new Chart({
      width: app.width, height: app.chartHeight,
      x: { min: 1, max: last, log: true, label: "position" },
      y: { min: 1e-9, max: 100, log: true, label: "largest error of cos or sin", format: power },
      label: "Largest error of cos or sin by position: " + this.methods.map((m) =>
        `${m.method} ${si(m.value_error.at(-1))}`).join(", ") + ` at position ${last}`,
    });
    for (const { method, value_error: errors } of this.methods) {
      const [color, dash] = STYLES[method];
      chart.line(this.positions, errors, { color, dash, width: 2.2 });
    }
    chart.level(BFLOAT16_ROUNDING, "rounding of bfloat16", "var(--soft)", { at: "middle" });
    const trained = app.rope.rope.context.trained;
    chart.uprights(trained ? [[trained, `trained ${count(trained)}`, "var(--c3)"]] : []);
    this.mark = s("line", { stroke: "var(--ink)", "stroke-opacity": 0.6, y1: chart.top,
      y2: chart.bottom, "data-live": true });
    chart.over.append(this.mark);
    this.chart = chart;
    app.pick(chart, (event) => app.set({ position: Math.round(chart.valueAt(event)) }));
    root.append(chart.svg, legend(this.methods.map(({ method }) => [method, ...STYLES[method]])));
    this.move(app);
  },

  /** Errors by method at positions. */
  errors(app, positions) {
    const { number } = app.rope;
    const rows = this.known.at(number, positions, (missing) => {
      const { methods } = app.engine.precision({ rope: number, positions: missing });
      return missing.map((_, k) => methods.map((m) => ({ method: m.method,
        angle_error: m.angle_error[k], value_error: m.value_error[k], pair: m.pair[k] })));
    });
    return rows[0].map(({ method }, k) => {
      const all = (key) => rows.map((row) => row[k][key]);
      return { method, angle_error: all("angle_error"), value_error: all("value_error"),
        pair: all("pair") };
    });
  },

  move(app) {
    const x = this.chart.atX(Math.min(this.chart.x.max, Math.max(1, app.state.position)));
    this.mark.setAttribute("x1", x);
    this.mark.setAttribute("x2", x);
  },

  readout(app) {
    const position = Math.round(app.state.position);
    const methods = this.errors(app, [position]);
    return [["position", String(position)],
      ...methods.map((m) => [m.method, String(m.value_error[0])])];
  },

  data: () => ({ positions: precision.positions, methods: precision.methods }),
};

/** 1, 2, 4, ..., and `last`. */
function powersBelow(last) {
  const powers = [];
  for (let power = 1; power < last; power *= 2) powers.push(power);
  return [...powers, last];
}
