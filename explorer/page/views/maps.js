// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Heat maps: position x pair, scores of query x key, and two axes of images and M-RoPE.

import { Chart } from "../chart.js";
import { count, h, s, si } from "../dom.js";

const KINDS = {
  phases: "Position × pair",
  scores: "Query × key",
  plane: "Two axes",
};
const COLUMNS = 320;
const SIDE = 96;

export const maps = {
  id: "maps",
  title: "Maps",
  slow: true,
  caption:
    "The rotation as a picture. Position × pair is a fingerprint of every position: fast pairs " +
    "flicker, slow ones hardly move. Query × key shows why only the distance counts: diagonals.",

  draw(app, root) {
    const axes = app.rope.rope.axes.length;
    const kind = app.state.map === "plane" && axes < 2 ? "phases" : app.state.map;
    this.kind = kind;
    root.append(this.controls(app, kind, axes));
    if (kind === "phases") this.phases(app, root);
    else if (kind === "scores" && axes === 1) this.scores(app, root);
    else if (kind === "scores") this.textScores(app, root);
    else this.plane(app, root, axes);
    root.append(scale(app, this.range));
    this.move(app);
  },

  controls(app, kind, axes) {
    const choice = (id, name, on, change) => h("button", {
      type: "button", class: "choice", "aria-pressed": String(on), "data-choice": id,
      onclick: () => app.set(change, { redraw: true }) }, name);
    const parts = Object.entries(KINDS).filter(([id]) => id !== "plane" || axes > 1)
      .map(([id, name]) => choice(id, name, id === kind, { map: id }));
    if (kind === "phases") {
      parts.push(h("span", { class: "gap" }),
        choice("near", `first ${COLUMNS}`, app.state.span !== "all", { span: "near" }),
        choice("all", `all ${count(app.context)}`, app.state.span === "all", { span: "all" }));
    }
    if (kind === "plane" && axes > 2) {
      const slider = h("input", { id: "plane", type: "range", min: -64, max: 64,
        value: app.state.plane,
        oninput: (event) => app.set({ plane: Number(event.target.value) }, { redraw: true }) });
      parts.push(h("label", { for: "plane" },
        `${app.rope.rope.axes[0]} apart: ${app.state.plane}`), slider);
    }
    return h("div", { class: "controls", role: "group", "aria-label": "Kind of map" }, parts);
  },

  /** cos of the angle of each pair at each position, by the C API. */
  phases(app, root) {
    const { pairs } = app;
    const all = app.state.span === "all";
    const last = all ? app.context - 1 : COLUMNS - 1;
    const positions = Array.from({ length: COLUMNS }, (_, k) =>
      Math.round((k * last) / (COLUMNS - 1)));
    const { cos } = app.cosSin(app.rope, positions);
    const unit = app.rope.rope.scale;
    this.values = cos.map((value) => value / unit);
    this.range = [-1, 1];
    this.picture(app, root, {
      rows: pairs, columns: COLUMNS, value: (row, column) => this.values[column * pairs + row],
      x: { min: 0, max: last, label: "position" },
      y: { min: pairs, max: 0, label: "pair", format: String },
      label: `cos of the angle of ${pairs} pairs at positions 0 to ${last}`,
    });
    this.positions = positions;
    this.pick(app, (event) => {
      const box = this.chart.svg.getBoundingClientRect();
      const y = ((event.clientY - box.top) / box.height) * this.chart.height;
      const share = (y - this.chart.top) / (this.chart.bottom - this.chart.top);
      app.set({ position: Math.round(this.chart.valueAt(event)),
        pair: Math.min(pairs - 1, Math.max(0, Math.floor(share * pairs))) });
    });
  },

  /** Scores of equal vectors at SIDE x SIDE positions around the diagonal. */
  scores(app, root) {
    const offsets = Array.from({ length: 2 * SIDE - 1 }, (_, k) => k + 1 - SIDE);
    this.square(app, root, app.engine.scores(app.rope.number, offsets, 1));
  },

  /** The same for text tokens of M-RoPE, which have one position on all axes. */
  textScores(app, root) {
    const { axes } = app.rope.rope;
    const offsets = [];
    for (let k = 1 - SIDE; k < SIDE; ++k) for (const _ of axes) offsets.push(k);
    this.square(app, root, app.engine.scores(app.rope.number, offsets, axes.length));
  },

  square(app, root, line) {
    this.values = line;
    this.range = rangeOf(line);
    this.picture(app, root, {
      rows: SIDE, columns: SIDE, value: (row, column) => line[row - column + SIDE - 1],
      x: { min: 0, max: SIDE, label: "key position" },
      y: { min: SIDE, max: 0, label: "query position", format: String }, square: true,
      label: `Score of equal vectors at query and key positions 0 to ${SIDE - 1}`,
    });
    this.pick(app, (event) => app.set({ position: Math.round(this.chart.valueAt(event)) }));
  },

  /** Offsets on the last two axes. */
  plane(app, root, axes) {
    const half = SIDE / 2;
    const side = 2 * half + 1;
    const offsets = [];
    for (let row = -half; row <= half; ++row) {
      for (let column = -half; column <= half; ++column) {
        for (let axis = 0; axis < axes - 2; ++axis) offsets.push(app.state.plane);
        offsets.push(row, column);
      }
    }
    this.values = app.engine.scores(app.rope.number, offsets, axes);
    this.range = rangeOf(this.values);
    const names = app.rope.rope.axes;
    this.picture(app, root, {
      rows: side, columns: side, value: (row, column) => this.values[row * side + column],
      x: { min: -half, max: half, label: `${names[axes - 1]} apart` },
      y: { min: half, max: -half, label: `${names[axes - 2]} apart`, format: String },
      square: true,
      label: `Score of equal vectors by their offset on ${names[axes - 2]} and ${names[axes - 1]}`,
    });
  },

  picture(app, root, { rows, columns, value, x, y, square = false, label }) {
    const room = root.clientWidth;
    const height = square ? Math.min(room, app.chartHeight + 90) : app.chartHeight + 20;
    const width = square ? Math.min(room, height + 12) : room;
    const chart = new Chart({ width, height, x, y, label });
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        paint(pixels.data, 4 * (row * columns + column), value(row, column), this.range,
          app.palette);
      }
    }
    context.putImageData(pixels, 0, 0);
    chart.plot.append(s("image", {
      href: canvas.toDataURL(), x: chart.left, y: chart.top, width: chart.right - chart.left,
      height: chart.bottom - chart.top, preserveAspectRatio: "none",
      style: "image-rendering:pixelated",
    }));
    this.chart = chart;
    this.mark = s("g", { "data-live": true, stroke: "var(--ink)", fill: "none" }, s("line"),
      s("line"));
    chart.over.append(this.mark);
    root.append(chart.svg);
  },

  pick(app, change) {
    app.pick(this.chart, change);
  },

  move(app) {
    const { chart, mark } = this;
    if (this.kind === "plane") return;
    const [upright, level] = mark.children;
    const { position, pair } = app.state;
    const inside = position >= 0 && position <= chart.x.max;
    upright.setAttribute("visibility", inside ? "visible" : "hidden");
    const x = chart.atX(Math.min(position, chart.x.max));
    for (const [name, value] of [["x1", x], ["x2", x], ["y1", chart.top], ["y2", chart.bottom]]) {
      upright.setAttribute(name, value);
    }
    const y = this.kind === "phases" ? chart.atY(pair + 0.5)
      : chart.atY(Math.min(position, chart.x.max));
    for (const [name, value] of [["x1", chart.left], ["x2", chart.right], ["y1", y], ["y2", y]]) {
      level.setAttribute(name, value);
    }
  },

  readout(app) {
    if (this.kind !== "phases") return [];
    const { cos } = app.at();
    return [["position", String(app.state.position)], ["pair", String(app.state.pair)],
      ["cos", String(cos)]];
  },

  data: () => ({ kind: maps.kind, values: [...maps.values] }),
};

/** The ends of the colours: of scores that are all positive, the smallest and the largest. */
function rangeOf(values) {
  const low = values.reduce((a, b) => Math.min(a, b));
  return low < 0 ? [-1, 1] : [low, values.reduce((a, b) => Math.max(a, b))];
}

/** Blue below zero, red above, the background between; red alone where the range is positive. */
function paint(data, at, value, [from, to], { low, middle, high }) {
  const share = from < 0 ? Math.abs(value) : (value - from) / (to - from || 1);
  const size = Math.min(1, Math.max(0, share));
  const end = value < 0 ? low : high;
  for (let k = 0; k < 3; ++k) data[at + k] = middle[k] + (end[k] - middle[k]) * size;
  data[at + 3] = 255;
}

function scale({ palette: { low, middle, high } }, [from, to]) {
  const css = (from < 0 ? [low, middle, high] : [middle, high]).map((c) => `rgb(${c.join(",")})`);
  const name = (value) => (value === -1 ? "−1" : si(value));
  return h("div", { class: "scale" }, h("span", {}, name(from)), h("span", { class: "ramp",
    style: `background:linear-gradient(90deg,${css.join(",")})` }), h("span", {}, name(to)));
}
