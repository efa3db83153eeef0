// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A chart of lines, bars and points as SVG, linear or logarithmic.

import { s, si } from "./dom.js";

const MARGIN = { left: 56, right: 18, top: 14, bottom: 44 };

/** Axis: {min, max, log, label, format}. */
export class Chart {
  /** `label` is what a screen reader says of the picture. */
  constructor({ width, height, x, y, label, margin = {} }) {
    this.margin = { ...MARGIN, ...margin };
    this.width = width;
    this.height = height;
    this.x = x;
    this.y = y;
    this.svg = s("svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
      class: "chart",
    });
    this.#axes();
    const id = `clip${++Chart.count}`;
    this.svg.append(s("clipPath", { id }, s("rect", {
      x: this.left, y: this.top, width: this.right - this.left, height: this.bottom - this.top,
    })));
    this.plot = s("g", { "clip-path": `url(#${id})` });
    this.over = s("g");
    this.svg.append(this.plot, this.over);
  }

  get left() { return this.margin.left; }
  get right() { return this.width - this.margin.right; }
  get top() { return this.margin.top; }
  get bottom() { return this.height - this.margin.bottom; }

  atX(value) { return place(this.x, value, this.left, this.right); }
  atY(value) { return place(this.y, value, this.bottom, this.top); }
  /** The value on the x axis under a pointer event. */
  valueAt(event) {
    const box = this.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * this.width;
    const share = Math.min(1, Math.max(0, (at - this.left) / (this.right - this.left)));
    const { min, max, log } = this.x;
    return log ? min * (max / min) ** share : min + (max - min) * share;
  }

  line(xs, ys, { color, width = 1.8, dash = null }) {
    let path = "";
    let drawing = false;
    for (let i = 0; i < xs.length; ++i) {
      const y = ys[i];
      if (y === null || !Number.isFinite(y) || (this.y.log && y <= 0)) {
        drawing = false;
        continue;
      }
      path += `${drawing ? "L" : "M"}${this.atX(xs[i]).toFixed(1)} ${this.atY(y).toFixed(1)}`;
      drawing = true;
    }
    this.plot.append(s("path", {
      d: path, fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": dash,
      "stroke-linejoin": "round",
    }));
  }

  /** A horizontal line with its name at its "start", "middle" or "end". Returns the two elements. */
  level(value, name, color, { below = false, at = "end" } = {}) {
    if (value < this.y.min || value > this.y.max) return [];
    const y = this.atY(value);
    const line = s("line", {
      x1: this.left, x2: this.right, y1: y, y2: y, stroke: color, "stroke-width": 1.3,
      "stroke-dasharray": "5 4",
    });
    const x = { start: this.left + 6, middle: (this.left + this.right) / 2, end: this.right - 6 }[at];
    const text = tag(x, y + (below ? 15 : -6), name, color, at);
    this.plot.append(line);
    this.over.append(text);
    return [line, text];
  }

  /**
   * Vertical lines [value, name, color] with their names on top, one below the other. A line begins
   * at its own name, and names stand on the side with more room, those at the edges first: so that
   * no name crosses a line.
   */
  uprights(lines) {
    const middle = (this.left + this.right) / 2;
    const all = lines.filter(([value]) => value >= this.x.min && value <= this.x.max)
      .map(([value, name, color]) => ({ x: this.atX(value), name, color }))
      .sort((a, b) => a.x - b.x);
    const early = all.filter(({ x }) => x <= middle);
    [...early, ...all.slice(early.length).reverse()].forEach(({ x, name, color }, row) => {
      const top = this.top + 15 * row;
      this.plot.append(s("line", {
        x1: x, x2: x, y1: top, y2: this.bottom, stroke: color,
        "stroke-width": 1.3, "stroke-dasharray": "5 4",
      }));
      const wide = 8 * name.length;
      const meets = x - wide < (early.at(-1)?.x ?? 0) && x + wide < this.right;
      const before = x > middle && !meets;
      this.over.append(tag(x + (before ? -5 : 5), top + 12, name, color, before ? "end" : "start"));
    });
  }

  #axes() {
    const grid = s("g", { stroke: "var(--grid)" });
    const text = s("g", { fill: "var(--soft)" });
    for (const value of ticks(this.x, Math.max(3, (this.right - this.left) / 72))) {
      const x = this.atX(value);
      grid.append(s("line", { x1: x, x2: x, y1: this.top, y2: this.bottom }));
      text.append(s("text", { x, y: this.bottom + 17, "text-anchor": "middle" },
        (this.x.format ?? si)(value)));
    }
    for (const value of ticks(this.y, Math.max(3, (this.bottom - this.top) / 34))) {
      const y = this.atY(value);
      grid.append(s("line", { x1: this.left, x2: this.right, y1: y, y2: y }));
      text.append(s("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" },
        (this.y.format ?? si)(value)));
    }
    const middle = (this.left + this.right) / 2;
    text.append(s("text", { x: middle, y: this.height - 6, "text-anchor": "middle" },
      this.x.label));
    text.append(s("text", {
      transform: `translate(13 ${(this.top + this.bottom) / 2}) rotate(-90)`,
      "text-anchor": "middle",
    }, this.y.label));
    this.svg.append(grid, text);
  }
}
Chart.count = 0;

function place({ min, max, log }, value, from, to) {
  const share = log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
  return from + (to - from) * share;
}

function tag(x, y, name, color, anchor) {
  return s("text", {
    x, y, "text-anchor": anchor, fill: color, stroke: "var(--card)", "stroke-width": 3,
    "paint-order": "stroke", "font-weight": 600,
  }, name);
}

/** About `count` round values between min and max. */
export function ticks({ min: from, max: to, log }, count) {
  const values = [];
  const [min, max] = [Math.min(from, to), Math.max(from, to)];
  if (log) {
    const decades = Math.log10(max / min);
    const step = Math.max(1, Math.ceil(decades / count));
    for (let k = Math.ceil(Math.log10(min) - 1e-9); k <= Math.log10(max) + 1e-9; k += step) {
      values.push(10 ** k);
    }
    return values;
  }
  const raw = (max - min) / count;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
  for (let k = Math.ceil(min / step - 1e-9); k * step <= max + step * 1e-9; ++k) {
    values.push(Number((k * step).toPrecision(12)));
  }
  return values;
}

/** Items [name, color, dash] as a row of samples. */
export function legend(items) {
  const list = document.createElement("ul");
  list.className = "legend";
  for (const [name, color, dash] of items) {
    const item = document.createElement("li");
    item.append(s("svg", { width: 26, height: 10, "aria-hidden": "true" }, s("line", {
      x1: 1, x2: 25, y1: 5, y2: 5, stroke: color, "stroke-width": 2.5, "stroke-dasharray": dash,
    })), ` ${name}`);
    list.append(item);
  }
  return list;
}

/** n values from `from` to `to` in equal ratios. */
export function geometric(from, to, n) {
  return Array.from({ length: n }, (_, k) => from * (to / from) ** (k / (n - 1)));
}
