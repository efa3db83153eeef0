// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The state of the page, the rope that it shows, and the view in front.

import { MAX_FILE_BYTES } from "./engine.js";
import { h } from "./dom.js";
import { Dial } from "./dial.js";
import { INITIAL, fromFragment, toFragment } from "./state.js";
import { recipeOf } from "./views/compare.js";

const PALETTES = {
  light: { low: [33, 102, 172], middle: [250, 250, 248], high: [178, 24, 43] },
  dark: { low: [90, 160, 255], middle: [26, 30, 36], high: [255, 112, 96] },
};
const MAX_CONTEXT = 2 ** 24;
/** Known models have at most 256; pictures of many thousands would stop the browser. */
const MAX_PAIRS = 1024;
/** While the wanted context is dragged, slow views draw with fewer points; with all when it rests. */
const REST_MS = 90;

export class App {
  /** `models`: bundled ones, {id: text}; `given`: {source, text} that the page was written with. */
  constructor({ engine, views, models, given, elements }) {
    Object.assign(this, { engine, views, models, given, elements });
    this.state = { ...INITIAL };
    this.dial = new Dial(this);
    elements.dial.replaceWith(this.dial.element);
    this.moves = []; // milliseconds of the last moves
  }

  // ---- What is shown ----------------------------------------------------------------------------

  get view() { return this.views.find((view) => view.id === this.state.view) ?? this.views[1]; }
  get dialects() { return (this.knownDialects ??= this.engine.dialects()); }
  get pairs() { return this.rope.wavelengths.length; }
  /** Wanted over trained context, for recipes. */
  get factor() {
    const trained = this.rope.rope.context.trained ?? this.context;
    return Math.max(1, Number((this.context / trained).toPrecision(6)));
  }
  get chartHeight() { return window.innerWidth < 700 ? 290 : 380; }
  get isDark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  get palette() { return PALETTES[this.isDark ? "dark" : "light"]; }

  /** cos and sin, [n x pairs], of whole positions, the same on every axis. */
  cosSin(rope, positions) {
    const axes = rope.rope.axes.length;
    const expanded = axes === 1 ? positions : positions.flatMap((p) => Array(axes).fill(p));
    return this.engine.cosSin(rope.number, expanded, axes, rope.wavelengths.length);
  }

  /** All pairs at the position. */
  now() {
    const key = `${this.rope.number}:${this.state.position}`;
    if (this.nowKey !== key) {
      this.nowValue = this.cosSin(this.rope, [this.state.position]);
      this.nowKey = key;
    }
    return this.nowValue;
  }

  /** The chosen pair at the position. */
  at() {
    const { cos, sin } = this.now();
    return { cos: cos[this.state.pair], sin: sin[this.state.pair] };
  }

  // ---- Changes ----------------------------------------------------------------------------------

  /** Changes the state, and draws what depends on it. Returns false if the model cannot be read. */
  set(changes, { redraw = false } = {}) {
    const start = performance.now();
    const before = this.state;
    this.state = { ...before, ...changes };
    const changed = (...names) => names.some((name) => this.state[name] !== before[name]);
    const reopen = !this.rope || changed("model", "text", "rope") ||
      (changed("context") && this.rope.depends_on_context);
    try {
      if (reopen) this.open(changed("model", "text"));
      else if (changed("context")) this.context = this.wanted(this.rope);
      this.clamp();
      this.elements.alert.hidden = true;
    } catch (error) {
      this.state = before;
      this.fail(error.message);
      return false;
    }
    clearTimeout(this.resting);
    const dragged = changed("context") && !redraw && !changed("model", "text", "rope", "view");
    if (dragged && !reopen && this.drawn && this.view.stretch?.(this)) {
      this.move();
    } else if (dragged && this.view.slow) {
      this.draw({ draft: true });
      this.resting = setTimeout(() => this.draw(), REST_MS);
    } else if (reopen || redraw || changed("view", "context")) {
      this.draw();
    } else {
      this.move();
    }
    this.moves.push(performance.now() - start);
    if (this.moves.length > 1000) this.moves.shift();
    this.remember();
    return true;
  }

  /** Reads the model and makes its rope. Nothing is changed if that fails. */
  open(otherModel) {
    const { state } = this;
    let { file } = this;
    if (otherModel || !file) {
      if (state.model === "own") {
        file = this.read(new TextEncoder().encode(state.text), this.source ?? "config.json");
        file.text = state.text;
      } else {
        const text = this.models[state.model];
        if (text === undefined) throw new Error(`there is no bundled model '${state.model}'`);
        file = this.read(new TextEncoder().encode(text), `${state.model}.json`);
        file.text = text;
      }
    }
    if (!file.ropes.includes(state.rope)) state.rope = file.default;
    const request = { model: file.number, rope: state.rope };
    const known = file === this.file && state.rope === this.rope?.rope.name;
    let rope = known ? this.rope : this.engine.rope(request);
    if (rope.wavelengths.length > MAX_PAIRS) {
      throw new Error(`${file.source} has ${rope.wavelengths.length} pairs; the explorer shows at ` +
        `most ${MAX_PAIRS} (rotary inspect reads it)`);
    }
    const wanted = this.wanted(rope);
    if (rope.depends_on_context) {
      if (!known) this.engine.close(rope.number);
      rope = this.engine.rope({ ...request, context: wanted });
    }
    if (this.rope && this.rope !== rope) this.engine.close(this.rope.number);
    this.file = file;
    this.rope = rope;
    this.context = wanted;
    this.request = request;
  }

  /** The wanted context of the state. */
  wanted(rope) {
    const { trained, extended } = rope.rope.context;
    const context = this.state.context || 2 * Math.max(extended ?? 0, trained ?? 0) || 4096;
    return Math.min(MAX_CONTEXT, Math.max(16, Math.round(context)));
  }

  read(bytes, source) {
    const number = this.engine.open(bytes, source);
    const { model_type: modelType, ropes, default: first } = this.engine.model({ model: number });
    return { number, source, modelType, ropes, default: first, text: "" };
  }

  /** The rope of a slot of Compare. `draft`: frequencies and wavelengths alone, for a drag. */
  openOther(text, draft) {
    const context = this.rope.depends_on_context ? this.context : 0;
    const [kind, name] = text.split(":");
    const other = kind === "dialect" ? { dialect: name } : { recipe: recipeOf(text, this) };
    if (draft) {
      const number = this.engine.make({ ...this.request, ...other, context: this.context });
      const frequencies = this.engine.frequencies(number, this.rope.rope.axes.length, this.pairs);
      const wavelengths = frequencies.map((row) => {
        const length = (2 * Math.PI) / Math.sqrt(row.reduce((sum, f) => sum + f * f, 0));
        return length < 1e18 ? length : null;
      });
      return { number, wavelengths, rope: { frequencies } };
    }
    let rope = this.engine.rope({ ...this.request, ...other, context });
    if (rope.depends_on_context && context === 0) {
      this.engine.close(rope.number);
      rope = this.engine.rope({ ...this.request, ...other, context: this.context });
    }
    return rope;
  }

  /** Opens a file that was dropped or chosen. Of a GGUF file the beginning is enough. */
  async openFile(file) {
    const bytes = new Uint8Array(await file.slice(0, MAX_FILE_BYTES).arrayBuffer());
    return this.openBytes(bytes, file.name);
  }

  openBytes(bytes, source) {
    const isGguf = bytes.length >= 4 && String.fromCharCode(...bytes.slice(0, 4)) === "GGUF";
    const { source: before } = this;
    try {
      this.source = source;
      let text = new TextDecoder().decode(bytes);
      if (isGguf) {
        // As `rotary inspect --json` prints it, which fits into a link.
        const { number, ropes, modelType } = this.read(bytes, source);
        text = JSON.stringify({ model_type: modelType, ropes: ropes.map((rope) =>
          this.engine.rope({ model: number, rope }).rope) });
      } else {
        this.read(bytes, source); // its error, for bytes that are no text
      }
      const shown = this.set({ model: "own", text, rope: "", context: 0 });
      if (!shown) this.source = before;
      return shown;
    } catch (error) {
      this.source = before;
      this.fail(error.message);
      return false;
    }
  }

  /** The text of the model was edited. */
  edit(text) {
    clearTimeout(this.editing);
    this.editing = setTimeout(() => {
      const area = document.getElementById("config");
      const at = area?.selectionStart;
      if (!this.set({ model: "own", text, rope: "" })) return;
      const next = document.getElementById("config");
      next?.focus();
      next?.setSelectionRange(at, at);
    }, 250);
  }

  clamp() {
    const { state } = this;
    state.pair = Math.min(this.pairs - 1, Math.max(0, Math.round(state.pair)));
    state.position = Math.min(this.context - 1, Math.max(0, Math.round(state.position)));
    if (!this.views.some((view) => view.id === state.view)) state.view = this.views[1].id;
  }

  fail(message) {
    const { alert } = this.elements;
    alert.textContent = message;
    alert.hidden = false;
  }

  // ---- Drawing ----------------------------------------------------------------------------------

  /** `draft`: a slow view may use fewer points, as draw() follows. */
  draw({ draft = false } = {}) {
    const { view } = this;
    const { panel } = this.elements;
    this.width = panel.clientWidth; // before anything changes: no layout in between
    const keeps = draft && view.keeps && this.drawn; // it replaces what depends on the drag itself
    if (!keeps) panel.replaceChildren();
    panel.setAttribute("aria-labelledby", `tab-${view.id}`);
    this.elements.title.textContent = view.title;
    this.elements.caption.textContent = view.caption;
    try {
      view.draw(this, panel, draft);
      this.drawn = true;
    } catch (error) {
      this.drawn = false;
      panel.append(h("p", { class: "error" }, error.message));
    }
    if (!draft) {
      this.elements.svgButtons.hidden = panel.querySelector("svg.chart") === null;
      this.elements.sync(this);
    }
    this.moveRest();
  }

  move() {
    if (this.drawn) this.view.move?.(this);
    this.moveRest();
  }

  moveRest() {
    this.dial.move();
    this.elements.moved(this);
    const rows = this.drawn ? this.view.readout?.(this) ?? [] : [];
    this.elements.readout.replaceChildren(...rows.flatMap(([name, value]) =>
      [h("div", {}, h("dt", {}, name), h("dd", {}, value))]));
  }

  /** Calls `change` for presses and drags on a chart. */
  pick(chart, change) {
    let down = false;
    chart.svg.classList.add("live");
    chart.svg.addEventListener("pointerdown", (event) => {
      down = true;
      chart.svg.setPointerCapture(event.pointerId);
      change(event);
    });
    chart.svg.addEventListener("pointermove", (event) => down && change(event));
    for (const name of ["pointerup", "pointercancel"]) {
      chart.svg.addEventListener(name, () => (down = false));
    }
  }

  // ---- The address ------------------------------------------------------------------------------

  remember() {
    if (this.remembering) return;
    this.remembering = setTimeout(() => {
      this.remembering = 0;
      this.fragment = toFragment(this.state);
      try {
        history.replaceState(null, "", this.fragment);
      } catch {
        // A page inside a notebook has no address of its own.
      }
    }, 150);
  }

  /** The state of the address, else the given model, else the first one. */
  start() {
    const given = this.given && location.hash.length < 2;
    const state = fromFragment(location.hash);
    if (given) {
      this.source = this.given.source;
      Object.assign(state, { model: "own", text: this.given.text });
    }
    if (!this.set(state)) {
      const message = this.elements.alert.textContent;
      this.set({ ...INITIAL });
      this.fail(message);
    }
  }

  follow() {
    if (location.hash !== this.fragment) this.set(fromFragment(location.hash), { redraw: true });
  }
}
