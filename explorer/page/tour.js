// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The guided tour: from one rotating pair to YaRN, in eight steps.

import { h } from "./dom.js";

export const STEPS = [
  {
    title: "One pair turns",
    text: "A rotary embedding takes two elements of a query or key, sees them as an arrow in the " +
      "plane, and turns the arrow by an angle proportional to the token's position. Drag the dial: " +
      "this pair turns by one radian from token to token.",
    state: { model: "roformer-base", view: "vector", position: 1, pair: 0, context: 1536 },
  },
  {
    title: "Every pair has its own speed",
    text: "A head has many pairs. The first turns fast, each next one slower, down to about " +
      "1/10000 radian per token. Together the dials show a position as a clock with many hands " +
      "shows a time. Drag the position and watch which of them move.",
    state: { model: "roformer-base", view: "vector", position: 60, pair: 8, context: 1536 },
  },
  {
    title: "Wavelengths",
    text: "The tokens that a pair needs for one turn are its wavelength: 2π · base^(2i/d) for pair " +
      "i. Short wavelengths tell neighbours apart, long ones distant tokens. On this scale the " +
      "ladder is straight; the base sets its slope.",
    state: { model: "llama-2-7b", view: "wavelengths", position: 60, pair: 40, context: 4096 },
  },
  {
    title: "Only the distance counts",
    text: "Turn a query by its position and a key by its own: their product depends on the " +
      "difference alone. Each diagonal of this map, one distance, has one colour. That is why " +
      "RoPE, applied to each token by itself, gives relative positions.",
    state: { model: "llama-2-7b", view: "maps", map: "scores", position: 48, pair: 40,
      context: 4096 },
  },
  {
    title: "Scores fade with distance",
    text: "Far apart, the pairs point in all directions and their sum shrinks: the model prefers " +
      "near tokens unless it learns otherwise. With a small base the sum even falls below zero, " +
      "and a distant match then counts less than noise.",
    state: { model: "llama-2-7b", view: "decay", position: 900, pair: 40, context: 8192 },
  },
  {
    title: "What training never saw",
    text: "Hatched pairs do not complete a turn within the trained 4096 tokens. Ask for 32768 and " +
      "they reach angles that the model has never met; it fails there, at once. A longer context " +
      "needs other frequencies.",
    state: { model: "llama-2-7b", view: "wavelengths", position: 8000, pair: 60, context: 32768 },
  },
  {
    title: "Interpolate, or raise the base",
    text: "Position interpolation divides every frequency by 8: nothing is new, but neighbours " +
      "move together and short texts suffer. The NTK-aware base slows the slow pairs and keeps the " +
      "fast ones. The ratio below shows the difference.",
    state: { model: "llama-2-7b", view: "compare", position: 8000, pair: 32, context: 32768,
      others: ["recipe:linear:8", "recipe:ntk_alpha:8"] },
  },
  {
    title: "YaRN",
    text: "YaRN keeps pairs that turn often, interpolates those that never complete a turn, and " +
      "ramps between. It also multiplies cos and sin by a factor near 1 to keep attention sharp. " +
      "“What to type” has the lines for your engine. Now open a model of your own.",
    state: { model: "llama-2-7b", view: "compare", position: 8000, pair: 46, context: 32768,
      others: ["recipe:yarn:8", "recipe:linear:8"] },
  },
];

export class Tour {
  constructor(app, root) {
    this.app = app;
    this.root = root;
    this.step = -1;
  }

  get isOpen() { return this.step >= 0; }

  go(step) {
    if (step >= STEPS.length) return this.close();
    this.step = step;
    const { title, text, state } = STEPS[step];
    this.app.set(state, { redraw: true });
    const heading = h("h2", { tabindex: "-1" }, title);
    const next = h("button", { type: "button", class: "primary", id: "tour-next",
      onclick: () => this.go(step + 1) }, step + 1 < STEPS.length ? "Next" : "Done");
    this.root.replaceChildren(
      h("p", { class: "count" }, `Step ${step + 1} of ${STEPS.length}`), heading, h("p", {}, text),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => this.close() }, "Close"),
        step > 0 ? h("button", { type: "button", onclick: () => this.go(step - 1) }, "Back") : null,
        next));
    this.root.hidden = false;
    document.body.classList.add("touring");
    heading.focus({ preventScroll: true });
    // On a phone the picture would be behind the card.
    if (innerWidth < 860) document.getElementById("tabs").scrollIntoView({ block: "start" });
    return undefined;
  }

  close() {
    this.step = -1;
    this.root.hidden = true;
    document.body.classList.remove("touring");
    document.getElementById("tour")?.focus();
  }
}
