// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What to type for each engine, for the wanted context.

import { copyText, h, si } from "../dom.js";

export const plan = {
  id: "plan",
  title: "What to type",
  slow: true,
  caption:
    "Lines for each engine that serve the wanted context, read back in that engine's own dialect: " +
    "checked means that it makes this very rotation of them.",

  draw(app, root, draft) {
    if (draft && this.found) { // every line is checked by its engine's rules: when the drag rests
      this.list(root);
      for (const part of root.children) part.classList.add("stale");
      return;
    }
    this.found = null;
    try {
      this.found = app.engine.plan({ model: app.file.number, rope: app.rope.rope.name,
        context: app.context });
    } catch (error) {
      root.append(h("p", { class: "error" }, error.message));
      return;
    }
    this.list(root);
  },

  list(root) {
    const { found } = this;
    root.append(h("p", { class: "lead" }, found.sentence));
    if (found.options.length === 0) {
      root.append(h("p", {}, found.no_options ??
        "Choose a longer wanted context to see what extends it."));
      return;
    }
    root.append(effects(found), ...found.options.map((option, k) => lines(option, k === 0)));
  },

  data: () => plan.found,
};

function effects(found) {
  const row = (option) => h("tr", {}, h("th", { scope: "row" }, option.recipe),
    h("td", {}, option.short_prompts.pairs_changed === 0 && option.short_prompts.score_factor === 1
      ? "unchanged"
      : `${option.short_prompts.pairs_changed} of ${found.pairs} pairs` +
        (option.short_prompts.score_factor === 1 ? ""
          : `, scores ×${si(option.short_prompts.score_factor)}`)),
    h("td", {}, `${option.pairs_unseen} of ${found.pairs} pairs`));
  return h("table", {}, h("thead", {}, h("tr", {}, ["recipe", "changed for short prompts",
    "angles never trained"].map((text) => h("th", { scope: "col" }, text)))),
  h("tbody", {}, row(found.now), found.options.map(row)));
}

/** A line that may be broken after commas, which JSON has instead of spaces. */
function breakable(line) {
  return line.split(/(?<=,)/).flatMap((part) => [part, h("wbr")]);
}

function lines(option, open) {
  return h("details", { open, class: "engine" }, h("summary", {}, option.recipe),
    option.engines.map((engine) => h("div", { class: "typed" },
      h("div", { class: "name" }, h("b", {}, engine.dialect), engine.checked
        ? h("span", { class: "good" }, "checked") : h("span", { class: "bad" }, engine.problem)),
      engine.checked ? h("div", { class: "line" },
        h("code", { tabindex: "0" }, breakable(engine.line)),
        h("button", { type: "button", "aria-label": `Copy the line for ${engine.dialect}`,
          onclick: (event) => copyText(engine.line, event.target) }, "Copy")) : null)));
}
