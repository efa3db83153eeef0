// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The pairing as a picture of a head: arcs between the two elements of a pair.

import { h, s } from "../dom.js";

const CELLS = 16;

export const pairing = {
  id: "pairing",
  title: "Pairing",
  caption:
    "Which two elements of a head form a pair. The two conventions hold the same numbers in another " +
    "order: reading one as the other gives fluent nonsense, never an error.",

  draw(app, root) {
    const { rope } = app.rope;
    const head = reduced(rope);
    const same = rope.pairing === rope.output_pairing;
    const width = Math.max(320, app.width);
    const svg = s("svg", { viewBox: `0 0 ${width} ${same ? 150 : 290}`, width,
      height: same ? 150 : 290, class: "chart", role: "img", "aria-label": sentence(rope) });
    this.fill = (chosen) => {
      this.chosen = chosen;
      svg.replaceChildren(
        drawHead(head, chosen, rope.pairing, 72, width, same ? "in and out" : "in", rope));
      if (!same) svg.append(drawHead(head, chosen, rope.output_pairing, 212, width, "out", rope));
    };
    this.fill(chosenPair(head, app));
    root.append(svg, h("p", {}, sentence(rope)),
      head.whole ? null : h("p", { class: "note" },
        `Drawn with ${head.cells} cells for ${rope.head_dim} elements; numbers are pairs.`));
  },

  /** The position changes nothing here, and the pair only where it is drawn as another one. */
  move(app) {
    const chosen = chosenPair(reduced(app.rope.rope), app);
    if (chosen !== this.chosen) this.fill(chosen);
  },

  /** The wanted context changes nothing here. */
  stretch: () => true,

  readout(app) {
    const { rope } = app.rope;
    const [a, b] = elements(rope, rope.pairing, app.state.pair, app.pairs);
    return [["pair", String(app.state.pair)], ["elements", `${a} and ${b}`],
      ["pairing", rope.pairing]];
  },

  data(app) {
    const { rope } = app.rope;
    return { head_dim: rope.head_dim, rotary_dim: rope.rotary_dim,
      rotary_offset: rope.rotary_offset, pairing: rope.pairing,
      output_pairing: rope.output_pairing };
  },
};

/** A head of few cells with the proportions of the real one. */
function reduced(rope) {
  const whole = rope.head_dim <= CELLS;
  if (whole) {
    return { whole, cells: rope.head_dim, rotated: rope.rotary_dim, offset: rope.rotary_offset };
  }
  const unit = rope.head_dim / CELLS;
  const partial = rope.rotary_dim < rope.head_dim;
  const rotated = Math.min(partial ? CELLS - 2 : CELLS,
    Math.max(4, 2 * Math.round(rope.rotary_dim / unit / 2)));
  const trailing = rope.rotary_offset + rope.rotary_dim === rope.head_dim;
  const offset = trailing ? CELLS - rotated
    : Math.min(CELLS - rotated, Math.round(rope.rotary_offset / unit));
  return { whole, cells: CELLS, rotated, offset };
}

/** The pair of the drawn head that stands for the chosen one. */
function chosenPair({ whole, rotated }, app) {
  const pairs = rotated / 2;
  return whole ? app.state.pair
    : Math.min(pairs - 1, Math.floor((app.state.pair / app.pairs) * pairs));
}

function drawHead({ cells, rotated, offset }, chosen, order, y, width, name, rope) {
  const margin = 18;
  const size = Math.min(56, (width - 2 * margin) / cells);
  const left = (width - size * cells) / 2;
  const group = s("g");
  const pairs = rotated / 2;
  const center = (cell) => left + (cell + 0.5) * size;
  for (let pair = 0; pair < pairs; ++pair) {
    const [a, b] = order === "interleaved" ? [2 * pair, 2 * pair + 1] : [pair, pair + pairs];
    const [from, to] = [center(offset + a), center(offset + b)];
    const on = pair === chosen;
    const rise = Math.min(78, 16 + (to - from) * 0.24);
    group.append(s("path", {
      d: `M${from} ${y}C${from} ${y - rise} ${to} ${y - rise} ${to} ${y}`, fill: "none",
      stroke: on ? "var(--c2)" : "var(--c1)", "stroke-width": on ? 3 : 1.5,
      "stroke-opacity": on ? 1 : 0.65,
    }));
  }
  for (let cell = 0; cell < cells; ++cell) {
    const at = cell - offset;
    const inside = at >= 0 && at < rotated;
    const pair = !inside ? -1 : order === "interleaved" ? Math.floor(at / 2) : at % pairs;
    group.append(
      s("rect", { x: left + cell * size + 1.5, y: y + 1, width: size - 3, height: 34, rx: 4,
        fill: pair === chosen ? "var(--c2)" : inside ? "var(--tint)" : "none",
        stroke: inside ? "var(--c1)" : "var(--soft)",
        "stroke-dasharray": inside ? null : "3 3" }),
      s("text", { x: center(cell), y: y + 23, "text-anchor": "middle",
        fill: pair === chosen ? "var(--card)" : inside ? "var(--ink)" : "var(--soft)",
        "font-weight": pair === chosen ? 700 : 400 }, inside ? String(pair) : "–"));
  }
  group.append(s("text", { x: left + 2, y: y + 54, fill: "var(--soft)" }, `${name}: ${order}`),
    s("text", { x: left + size * cells - 2, y: y + 54, fill: "var(--soft)", "text-anchor": "end" },
      `${rope.rotary_dim} of ${rope.head_dim} rotated` +
      (rope.rotary_offset ? `, from element ${rope.rotary_offset}` : "")));
  return group;
}

function elements(rope, order, pair, pairs) {
  const from = rope.rotary_offset;
  return order === "interleaved" ? [from + 2 * pair, from + 2 * pair + 1]
    : [from + pair, from + pair + pairs];
}

function sentence(rope) {
  const pairs = rope.rotary_dim / 2;
  const say = (order) => (order === "interleaved" ? "pair i is elements 2i and 2i+1"
    : `pair i is elements i and i+${pairs}`);
  const from = rope.rotary_offset ? `, counted from element ${rope.rotary_offset}` : "";
  const rest = rope.head_dim - rope.rotary_dim;
  return `Pairing ${rope.pairing}: ${say(rope.pairing)}${from}.` +
    (rope.output_pairing === rope.pairing ? ""
      : ` Rotated pairs are stored ${rope.output_pairing}: ${say(rope.output_pairing)}.`) +
    (rest ? ` ${rest} elements pass through.` : "");
}
