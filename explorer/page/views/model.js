// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What was read, what was assumed, and what the library warns of.

import { h } from "../dom.js";

export const model = {
  id: "model",
  title: "Model",
  caption:
    "What the library reads from the file, in the words of the command rotary inspect. Nothing is " +
    "guessed silently: defaults of the family stand under assumed, contradictions under warnings.",

  draw(app, root) {
    const { rope } = app;
    const { assumed, warnings } = rope.rope;
    root.append(
      h("table", { class: "properties" }, h("tbody", {}, rope.properties.map(([name, value, text]) =>
        h("tr", {}, h("th", { scope: "row" }, name),
          h("td", { class: "value", colspan: text ? null : 2 }, value),
          text ? h("td", { class: "meaning" }, text) : null)))),
      ...rope.sentences.map((text) => h("p", {}, text)),
      remarks("Assumed", assumed, "Nothing: the file states every value."),
      remarks("Warnings", warnings, "None."),
      numbers(rope),
      h("details", { open: app.state.model === "own" },
        h("summary", {}, "The file, to edit"),
        h("textarea", {
          id: "config", "aria-label": "config.json of the model", spellcheck: "false", rows: 14,
          disabled: app.file.text === "",
          oninput: (event) => app.edit(event.target.value),
        }, app.file.text === "" ? "(a GGUF file)" : app.file.text)),
    );
  },

  /** The wanted context changes nothing here, unless the rope depends on it. */
  stretch: () => true,

  data: (app) => ({ model_type: app.file.modelType, ropes: [app.rope.rope] }),
};

function remarks(title, lines, none) {
  return h("section", { class: `remarks ${title.toLowerCase()}` }, h("h3", {}, title),
    lines.length ? h("ul", {}, lines.map((line) => h("li", {}, line))) : h("p", {}, none));
}

/** Every frequency and wavelength, with all digits. */
function numbers(rope) {
  const { axes, frequencies } = rope.rope;
  const head = ["pair", ...axes.map((axis) => `frequency${axes.length > 1 ? ` ${axis}` : ""}`),
    "wavelength"];
  const details = h("details", { class: "numbers" }, h("summary", {}, "All numbers"));
  details.addEventListener("toggle", () => {
    if (details.querySelector("table")) return;
    details.append(h("div", { class: "scroll", tabindex: "0", role: "region",
      "aria-label": "Frequencies" },
    h("table", {},
      h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, frequencies.map((row, pair) => h("tr", {},
        h("th", { scope: "row" }, String(pair)),
        row.map((f) => h("td", {}, String(f))),
        h("td", {}, String(rope.wavelengths[pair] ?? "not rotated"))))))));
  });
  return details;
}
