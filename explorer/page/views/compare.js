// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Up to three recipes or dialects overlaid: wavelengths, ratio, factors, first position apart.

import { Chart, legend } from "../chart.js";
import { h, s, si } from "../dom.js";

const COLORS = ["var(--c1)", "var(--c2)", "var(--c3)"];
const DASHES = [null, "7 4", "2 3"];
const RECIPES = [
  ["plain", "without scaling"], ["linear", "linear (position interpolation)"],
  ["ntk_alpha", "NTK-aware base"], ["dynamic", "dynamic NTK"], ["yarn", "YaRN"],
  ["llama3", "Llama 3.1"],
];

export const compare = {
  id: "compare",
  made: [],
  turn: 0,
  title: "Compare",
  slow: true,
  keeps: true,
  caption:
    "The model against other recipes, or against what another framework makes of the same file. " +
    "Below, the ratio of frequencies: 1 where they agree, below 1 where positions are stretched.",

  draw(app, root, draft) {
    if (!draft || !this.drawn?.isConnected) {
      this.drawn = h("div");
      root.replaceChildren(this.controls(app), this.drawn);
      draft = false;
    }
    this.turn = 1 - this.turn;
    const parts = [];
    const shown = [{ name: "A  this model", rope: app.rope }];
    app.state.others.forEach((text, k) => {
      if (text === "") return;
      const letter = "BC"[k];
      try {
        const rope = this.open(app, text, draft, k);
        shown.push({ name: `${letter}  ${nameOf(text, app)}`, rope, slot: k });
      } catch (error) {
        parts.push(h("p", { class: "error", role: "alert" }, `${letter}: ${error.message}`));
      }
    });
    this.shown = shown;
    const { pairs } = app;
    const every = shown.flatMap(({ rope }) => rope.wavelengths.filter((w) => w !== null));
    const top = new Chart({
      width: app.width, height: Math.round(app.chartHeight * 0.62),
      x: { min: 0, max: Math.max(1, pairs - 1), label: "pair", format: String },
      y: { min: 1, max: 10 ** Math.ceil(Math.log10(Math.max(10, ...every))), log: true,
        label: "positions per turn" },
      label: `Wavelengths of ${shown.map(({ name }) => name).join(", ")}`,
    });
    shown.forEach(({ rope }, k) => top.line(range(rope.wavelengths.length), rope.wavelengths, {
      color: COLORS[k], dash: DASHES[k], width: 2.2 }));
    const ratios = shown.slice(1).map(({ rope }) => ratio(rope, app.rope));
    const flat = ratios.flat().filter((r) => r !== null);
    const low = Math.min(1, ...flat);
    const high = Math.max(1, ...flat);
    const pad = Math.max(0.04, (high - low) * 0.12);
    const bottom = new Chart({
      width: app.width, height: Math.round(app.chartHeight * 0.42),
      x: { min: 0, max: Math.max(1, pairs - 1), label: "pair", format: String },
      y: { min: low - pad, max: high + pad, label: "frequency / A" },
      label: "Ratio of frequencies to those of the model",
    });
    ratios.forEach((values, k) => bottom.line(range(values.length), values, {
      color: COLORS[k + 1], dash: DASHES[k + 1], width: 2.2 }));
    this.charts = [top, bottom];
    this.marks = this.charts.map((chart) => {
      const mark = s("line", { stroke: "var(--ink)", "stroke-opacity": 0.5, "data-live": true,
        y1: chart.top, y2: chart.bottom });
      chart.over.append(mark);
      app.pick(chart, (event) => app.set({ pair: Math.round(chart.valueAt(event)) }));
      return mark;
    });
    this.drawn.replaceChildren(...parts,
      legend(shown.map(({ name }, k) => [name, COLORS[k], DASHES[k]])), top.svg, bottom.svg);
    // Where ropes part is searched for when a drag rests; until then the table keeps its place.
    if (!draft) root.append(this.compared = this.table(app));
    this.compared.classList.toggle("stale", draft);
    this.move(app);
  },

  /**
   * The rope of a slot, made anew only where something that it depends on has changed; while the
   * context is dragged, of two slots one at a time.
   */
  open(app, text, draft, slot) {
    const follows = /^recipe:(?!plain)[^:]*$/.test(text); // its factor is wanted over trained
    const made = this.made[slot];
    const key = `${text} ${app.rope.number}`;
    const stale = !made || made.key !== key || (made.draft && !draft) ||
      (follows && made.factor !== app.factor) ||
      (made.dependsOnContext && made.context !== app.context);
    if (!stale) return made.rope;
    const waits = draft && made?.key === key && this.turn !== slot && app.state.others[1 - slot];
    if (waits) return made.rope;
    const brief = draft && made?.key === key && text.startsWith("recipe:");
    const rope = app.openOther(text, brief);
    if (made) app.engine.close(made.rope.number);
    this.made[slot] = { key, rope, draft: brief, factor: app.factor, context: app.context,
      dependsOnContext: brief ? made.dependsOnContext : rope.depends_on_context };
    return rope;
  },

  controls(app) {
    const slot = (k) => {
      const value = app.state.others[k];
      const [kind, name, factor] = value.split(":");
      const change = (text) => app.set({
        others: app.state.others.map((old, j) => (j === k ? text : old)) }, { redraw: true });
      const select = h("select", { id: `other${k}`,
        onchange: (event) => change(event.target.value) },
      h("option", { value: "" }, "nothing"),
      h("optgroup", { label: "Recipes" }, RECIPES.map(([id, text]) =>
        h("option", { value: `recipe:${id}` }, text))),
      h("optgroup", { label: "Frameworks" }, app.dialects.map((d) =>
        h("option", { value: `dialect:${d.name}` }, d.name))));
      select.value = kind ? `${kind}:${name}` : "";
      const parts = [h("label", { for: `other${k}` }, `${"BC"[k]}`), select];
      if (kind === "recipe" && name !== "plain") {
        parts.push(h("label", { for: `factor${k}`, class: "minor" }, "factor"), h("input", {
          id: `factor${k}`, type: "number", min: 1, step: "any", value: factor ?? app.factor,
          onchange: (event) => change(`recipe:${name}:${event.target.value}`) }));
      }
      return h("span", { class: "slot" }, parts);
    };
    return h("div", { class: "controls" }, slot(0), slot(1));
  },

  table(app) {
    const rows = this.shown.map(({ name, rope, slot }) => {
      const { scale, softmax_scale: softmax } = rope.rope;
      const row = { name, scale, softmax, apart: null, largest: null, note: "" };
      if (slot === undefined) return row;
      const found = app.engine.compare({ a: app.rope.number, b: rope.number });
      row.apart = found.phase_divergence?.position ?? null;
      row.pair = found.phase_divergence?.pair;
      row.largest = found.frequency_ratio?.largest ?? null;
      const dialect = rope.dialect;
      if (dialect?.refused) row.note = `refuses: ${dialect.refused}`;
      else if (dialect?.dropped_keys.length) row.note = `drops ${dialect.dropped_keys.join(", ")}`;
      return row;
    });
    this.rows = rows;
    const cell = (value) => h("td", {}, value);
    return h("table", { class: "compared" },
      h("thead", {}, h("tr", {}, ["", "factor on cos and sin (A)", "softmax scale (S)",
        "largest ratio", "first position 0.1 rad apart", ""].map((text) =>
        h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map((row, k) => h("tr", {},
        h("th", { scope: "row", style: `color:${COLORS[k]}` }, row.name),
        cell(String(row.scale)), cell(String(row.softmax)),
        cell(k === 0 ? "–" : row.largest === null ? "–" : si(row.largest)),
        cell(k === 0 ? "–" : row.apart === null ? "never" : `${row.apart} (pair ${row.pair})`),
        cell(row.note)))));
  },

  move(app) {
    this.marks.forEach((mark, k) => {
      const x = this.charts[k].atX(app.state.pair);
      mark.setAttribute("x1", x);
      mark.setAttribute("x2", x);
    });
  },

  readout(app) {
    const { pair } = app.state;
    return this.shown.map(({ name, rope }) =>
      [`wavelength ${name[0]}`, String(rope.wavelengths[pair] ?? "not rotated")]);
  },

  data(app) {
    return { ropes: this.shown.map(({ name, rope }) => ({ name, ...rope.rope })), rows: this.rows };
  },
};

const range = (n) => Array.from({ length: n }, (_, k) => k);

function ratio(rope, base) {
  const a = base.rope.frequencies;
  const b = rope.rope.frequencies;
  if (a.length !== b.length) return [];
  return b.map((row, pair) => {
    const axis = row.findIndex((f) => f !== 0);
    return axis < 0 || a[pair][axis] === 0 ? null : row[axis] / a[pair][axis];
  });
}

function nameOf(text, app) {
  const [kind, name, factor] = text.split(":");
  if (kind === "dialect") return name;
  const words = RECIPES.find(([id]) => id === name)?.[1] ?? name;
  return name === "plain" ? words : `${words}, factor ${si(Number(factor ?? app.factor))}`;
}

/** The recipe of a slot: its scaling, and the rest as the model has it. */
export function recipeOf(text, app) {
  const { rotary_dim, axis_map, recipe } = app.rope.rope;
  const { theta, ladder_dim, direction, gain } = recipe;
  return { ...scalingOf(text, app), rotary_dim, theta, ladder_dim, direction, gain, axis_map };
}

function scalingOf(text, app) {
  const [, name, given] = text.split(":");
  const factor = Number(given ?? app.factor);
  const original = app.rope.rope.context.trained ?? 4096;
  switch (name) {
    case "plain": return { type: "default" };
    case "linear": return { type: "linear", factor };
    case "ntk_alpha": return { type: "ntk_alpha", alpha: factor };
    case "dynamic": return { type: "dynamic", factor, original_context: original };
    default: return { type: name, factor, original_context: original };
  }
}
