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
const DRAFT_COLUMNS = 120;
const SIDE = 96;

export const maps = {
  id: "maps",
  title: "Maps",
  slow: true,
  caption:
    "The rotation as a picture. Position × pair is a fingerprint of every position: fast pairs " +
    "flicker, slow ones hardly move. Query × key shows why only the distance counts: diagonals.",

  draw(app, root, draft) {
    const axes = app.rope.rope.axes.length;
    const kind = app.state.map === "plane" && axes < 2 ? "phases" : app.state.map;
    this.kind = kind;
    root.append(this.controls(app, kind, axes));
    if (kind === "phases") this.phases(app, root, draft ? DRAFT_COLUMNS : COLUMNS);
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
        choice("all", allName(app), app.state.span === "all", { span: "all" }));
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

  /** cos of the angle of each pair at each position. */
  phases(app, root, most) {
    const { pairs } = app;
    const all = app.state.span === "all";
    const step = all ? Math.max(1, Math.round((app.context - 1) / (most - 1))) : 1;
    const columns = all ? Math.floor((app.context - 1) / step) + 1 : most;
    const last = (columns - 1) * step;
    this.positions = Array.from({ length: columns }, (_, k) => k * step);
    const axes = app.rope.rope.axes.map(() => true);
    this.values = rotations(app, columns, step, axes).cos;
    this.range = [-1, 1];
    this.picture(app, root, {
      rows: pairs, columns, value: (row, column) => this.values[column * pairs + row],
      x: { min: 0, max: last, label: "position" },
      y: { min: pairs, max: 0, label: "pair", format: String },
      label: `cos of the angle of ${pairs} pairs at positions 0 to ${last}`,
    });
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
    this.values = planeScores(app, half, axes);
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
    const room = app.width;
    const height = square ? Math.min(room, app.chartHeight + 90) : app.chartHeight + 20;
    const width = square ? Math.min(room, height + 12) : room;
    const chart = new Chart({ width, height, x, y, label });
    const canvas = document.createElement("canvas");
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(columns, rows);
    const { palette } = app;
    const { range } = this;
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        paint(pixels.data, 4 * (row * columns + column), value(row, column), range, palette);
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

  /** The wanted context is in the name of a button, and changes the picture of all positions. */
  stretch(app) {
    if (this.kind === "phases" && app.state.span === "all") return false;
    const all = document.querySelector("[data-choice=all]");
    if (all) all.textContent = allName(app);
    this.move(app);
    return true;
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

  /** Phases by the library itself, each; scores of two axes are right to 1e-14 (see rotations()). */
  data(app) {
    if (this.kind !== "phases") return { kind: this.kind, values: [...this.values] };
    const { cos } = app.cosSin(app.rope, this.positions);
    const unit = app.rope.rope.scale;
    return { kind: this.kind, positions: this.positions, values: [...cos].map((c) => c / unit) };
  },
};

/**
 * cos and sin, [n x pairs], at 0, step, 2 step, ... on the axes with `on`, and 0 on the others. The
 * library computes those at powers of two, once for a rope; the others are products of them,
 * e^(i f (a + b)) = e^(i f a) e^(i f b), right to 1e-14, which is enough for colours while dragging.
 */
function rotations(app, n, step, on) {
  if (app.rope.rope.growth) return steppedRotations(app, n, step, on); // xPos: not of length 1
  const { pairs } = app;
  const cos = new Float64Array(n * pairs).fill(1, 0, pairs);
  const sin = new Float64Array(n * pairs);
  const powers = Math.ceil(Math.log2(Math.max(2, n)));
  const known = Array.from({ length: powers }, (_, k) => rotationAt(app, step * 2 ** k, on));
  for (let k = 1; k < n; ++k) {
    const power = 31 - Math.clz32(k);
    const { cos: c, sin: s } = known[power];
    for (let pair = 0, to = k * pairs, from = (k - 2 ** power) * pairs; pair < pairs;
      ++pair, ++to, ++from) {
      cos[to] = cos[from] * c[pair] - sin[from] * s[pair];
      sin[to] = cos[from] * s[pair] + sin[from] * c[pair];
    }
  }
  return { cos, sin };
}

/** cos and sin, [pairs], at one whole position, from those of its bits. */
function rotationAt(app, position, on) {
  const { pairs } = app;
  const known = powersOfTwo(app, on);
  const cos = new Float64Array(pairs).fill(1);
  const sin = new Float64Array(pairs);
  const sign = Math.sign(position);
  for (let power = 0, rest = Math.abs(position); rest > 0; ++power, rest = Math.floor(rest / 2)) {
    if (rest % 2 === 0) continue;
    for (let pair = 0, k = power * pairs; pair < pairs; ++pair, ++k) {
      const [c, s] = [cos[pair], sin[pair]];
      cos[pair] = c * known.cos[k] - s * sign * known.sin[k];
      sin[pair] = c * sign * known.sin[k] + s * known.cos[k];
    }
  }
  return { cos, sin };
}

const POWERS = 26; // positions are at most 2^24
const powersKnown = { number: -1, at: new Map() };

/** cos and sin, [POWERS x pairs], at 1, 2, 4, ..., without the scale. */
function powersOfTwo(app, on) {
  if (powersKnown.number !== app.rope.number) {
    Object.assign(powersKnown, { number: app.rope.number, at: new Map() });
  }
  const key = on.join();
  if (!powersKnown.at.has(key)) {
    const positions = Array.from({ length: POWERS }, (_, k) => on.map((is) => (is ? 2 ** k : 0)));
    powersKnown.at.set(key, exactRotations(app, positions));
  }
  return powersKnown.at.get(key);
}

function steppedRotations(app, n, step, on) {
  return exactRotations(app, Array.from({ length: n }, (_, k) => on.map((is) => (is ? k * step : 0))));
}

/** cos and sin, [positions x pairs], by the library itself. */
function exactRotations(app, positions) {
  const { cos, sin } = app.engine.cosSin(app.rope.number, positions.flat(), positions[0].length,
    app.pairs);
  const unit = app.rope.rope.scale;
  return { cos: cos.map((c) => c / unit), sin: sin.map((s) => s / unit) };
}

/** Scores of equal vectors, [side x side], at offsets -half to half on the last two axes. */
function planeScores(app, half, axes) {
  const { pairs } = app;
  const side = 2 * half + 1;
  const on = (axis) => Array.from({ length: axes }, (_, k) => k === axis);
  const rows = rotations(app, half + 1, 1, on(axes - 2));
  const columns = rotations(app, half + 1, 1, on(axes - 1));
  const rest = Array.from({ length: axes }, (_, k) => k < axes - 2);
  const first = app.rope.rope.growth ? exactRotations(app, [rest.map((is) => (is ? app.state.plane : 0))])
    : rotationAt(app, app.state.plane, rest);
  const scores = new Float64Array(side * side);
  const [a, b] = [new Float64Array(pairs), new Float64Array(pairs)]; // first and row, together
  for (let row = -half; row <= half; ++row) {
    for (let pair = 0; pair < pairs; ++pair) {
      const [c, s] = [first.cos[pair], first.sin[pair]];
      const k = Math.abs(row) * pairs + pair;
      const rowSin = Math.sign(row) * rows.sin[k];
      a[pair] = c * rows.cos[k] - s * rowSin;
      b[pair] = c * rowSin + s * rows.cos[k];
    }
    const middle = (row + half) * side + half;
    for (let column = 0; column <= half; ++column) { // and its mirror, whose sines are negative
      let even = 0;
      let odd = 0;
      for (let pair = 0, k = column * pairs; pair < pairs; ++pair, ++k) {
        even += a[pair] * columns.cos[k];
        odd += b[pair] * columns.sin[k];
      }
      scores[middle + column] = (even - odd) / pairs;
      scores[middle - column] = (even + odd) / pairs;
    }
  }
  return scores;
}

const allName = (app) => `all ${count(app.context)}`;

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
