// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The page: controls, keys, files, the tour. `loadExplorer`, `WASM` and `MODELS` stand before this in
// the packed page (explorer/pack.py).

import { App } from "./app.js";
import { copyText, count, h, svgText } from "./dom.js";
import { loadEngine } from "./engine.js";
import { Tour } from "./tour.js";
import { compare } from "./views/compare.js";
import { decay } from "./views/decay.js";
import { maps } from "./views/maps.js";
import { model } from "./views/model.js";
import { pairing } from "./views/pairing.js";
import { plan } from "./views/plan.js";
import { precision } from "./views/precision.js";
import { vector } from "./views/vector.js";
import { wavelengths } from "./views/wavelengths.js";

const VIEWS = [model, wavelengths, compare, decay, maps, precision, pairing, vector, plan];
const STEPS_OF_SLIDER = 1000;

const $ = (id) => document.getElementById(id);

/** Sliders of positions are logarithmic: 0 to `most` in STEPS_OF_SLIDER steps. */
const toSlider = (value, most) =>
  Math.round((Math.log1p(value) / Math.log1p(most)) * STEPS_OF_SLIDER);
const fromSlider = (step, most) => Math.round(Math.expm1((step / STEPS_OF_SLIDER) * Math.log1p(most)));

function makeTabs(app) {
  const tabs = VIEWS.map((view, k) => h("button", {
    type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": "panel", "data-view": view.id,
    title: `${view.title} (${k + 1})`, onclick: () => app.set({ view: view.id }),
  }, view.title));
  $("tabs").append(...tabs);
  $("tabs").addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const tab = tabs[(to + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
  return tabs;
}

/** What depends on the model and the view. */
function syncControls(app, tabs) {
  const { state, file, rope } = app;
  for (const tab of tabs) {
    const on = tab.dataset.view === state.view;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    if (on) scrollIntoStrip(tab);
  }
  $("model").value = state.model;
  $("own").hidden = state.model !== "own";
  $("own").textContent = `${file.source}`;
  $("rope-row").hidden = file.ropes.length < 2;
  $("rope").replaceChildren(...file.ropes.map((name) => h("option", { value: name }, name)));
  $("rope").value = state.rope;
  const { trained, extended } = rope.rope.context;
  $("about").textContent = `${file.modelType || "unknown type"} · ${rope.rope.recipe.type} · ` +
    `${app.pairs} pair${app.pairs === 1 ? "" : "s"} · ` + (trained ? `trained ${count(trained)}` : "no trained context") +
    (extended && extended !== trained ? `, extended ${count(extended)}` : "");
  const { warnings } = rope.rope;
  $("warned").hidden = warnings.length === 0;
  $("warned").textContent = `${warnings.length} warning${warnings.length === 1 ? "" : "s"}`;
  document.title = `${state.model === "own" ? file.source : state.model} · rotary explorer`;
}

function scrollIntoStrip(tab) {
  const strip = $("tabs");
  const left = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.clientWidth) / 2;
  strip.scrollLeft = left;
}

/** What moves with the position, the pair and the wanted context. */
function syncSliders(app) {
  const { state } = app;
  const show = (id, value, most, text) => {
    const slider = $(id);
    if (document.activeElement !== slider || Number(slider.value) !== value) {
      slider.max = most;
      slider.value = value;
    }
    slider.setAttribute("aria-valuetext", text);
  };
  show("position", toSlider(state.position, app.context - 1), STEPS_OF_SLIDER, `${state.position}`);
  show("pair", state.pair, app.pairs - 1, `pair ${state.pair}`);
  show("context", Math.round(Math.log2(app.context) * 100), 2400, `${app.context} positions`);
  for (const [id, value] of [["position-number", state.position], ["pair-number", state.pair],
    ["context-number", app.context]]) {
    if (document.activeElement !== $(id)) $(id).value = value;
  }
}

function connectControls(app) {
  const number = (id, change) => $(id).addEventListener("change", (event) => {
    const value = Number(event.target.value);
    if (Number.isFinite(value)) change(value);
  });
  $("position").addEventListener("input", (event) =>
    app.set({ position: fromSlider(Number(event.target.value), app.context - 1) }));
  $("pair").addEventListener("input", (event) => app.set({ pair: Number(event.target.value) }));
  $("context").addEventListener("input", (event) => {
    const value = 2 ** (Number(event.target.value) / 100);
    // Powers of two are what people ask for.
    const power = 2 ** Math.round(Math.log2(value));
    app.set({ context: Math.abs(value / power - 1) < 0.06 ? power : Math.round(value) });
  });
  number("position-number", (position) => app.set({ position }));
  number("pair-number", (pair) => app.set({ pair }));
  number("context-number", (context) => app.set({ context }));
  $("rope").addEventListener("change", (event) => app.set({ rope: event.target.value }));
  $("model").addEventListener("change", (event) => {
    if (event.target.value !== "own") app.set({ model: event.target.value, rope: "", context: 0 });
  });
  $("warned").addEventListener("click", () => app.set({ view: "model" }));
  $("share").addEventListener("click", (event) => {
    app.remember();
    setTimeout(() => copyText(location.href.split("#")[0] + app.fragment, event.target), 200);
  });
  $("copy-json").addEventListener("click", (event) =>
    copyText(JSON.stringify(app.view.data(app), null, 2), event.target));
  $("copy-svg").addEventListener("click", (event) =>
    copyText(svgText($("panel").querySelector("svg.chart")), event.target));
  connectPlay(app);
}

function connectPlay(app) {
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    $("play").textContent = "Play";
    $("play").setAttribute("aria-pressed", "false");
  };
  $("play").addEventListener("click", () => {
    if (frame) return stop();
    $("play").textContent = "Pause";
    $("play").setAttribute("aria-pressed", "true");
    let exact = app.state.position;
    const step = () => {
      const wavelength = Math.min(app.rope.wavelengths[app.state.pair] ?? 6, app.context);
      if (Math.round(exact) !== app.state.position) exact = app.state.position;
      exact += Math.max(0.05, wavelength / 150);
      if (exact > app.context - 1) exact = 0;
      app.set({ position: Math.round(exact) });
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return undefined;
  });
  return stop;
}

function connectFiles(app) {
  $("open").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", async (event) => {
    if (event.target.files.length) await app.openFile(event.target.files[0]);
    event.target.value = "";
  });
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dropping");
  });
  addEventListener("drop", async (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (event.dataTransfer.files.length) await app.openFile(event.dataTransfer.files[0]);
  });
  const dialog = $("paste-dialog");
  $("paste").addEventListener("click", () => {
    $("paste-error").hidden = true;
    dialog.showModal();
  });
  $("paste-cancel").addEventListener("click", () => dialog.close());
  $("paste-read").addEventListener("click", () => {
    const text = $("paste-text").value;
    if (app.openBytes(new TextEncoder().encode(text), "pasted.json")) return dialog.close();
    $("paste-error").textContent = $("alert").textContent;
    $("paste-error").hidden = false;
    return undefined;
  });
  // Pasting anywhere outside a text field opens what was pasted.
  addEventListener("paste", (event) => {
    if (isTyping(event.target)) return;
    const text = event.clipboardData.getData("text");
    if (text.trim()) app.openBytes(new TextEncoder().encode(text), "pasted.json");
  });
}

const isTyping = (element) => /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);

function connectKeys(app, tour) {
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && tour.isOpen) return tour.close();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return undefined;
    const { position, pair } = app.state;
    const far = event.shiftKey ? Math.max(10, Math.round(position * 0.1)) : 1;
    const keys = {
      ArrowRight: () => app.set({ position: position + far }),
      ArrowLeft: () => app.set({ position: position - far }),
      ArrowUp: () => app.set({ pair: pair + 1 }),
      ArrowDown: () => app.set({ pair: pair - 1 }),
      t: () => tour.go(0),
      d: () => $("theme").click(),
      " ": () => event.target === document.body && $("play").click(),
    };
    const view = VIEWS[Number(event.key) - 1];
    const run = view ? () => app.set({ view: view.id }) : keys[event.key];
    if (!run || $("paste-dialog").open) return undefined;
    event.preventDefault();
    run();
    return undefined;
  });
}

function connectTheme(app) {
  const root = document.documentElement;
  const stored = (() => {
    try {
      return localStorage.getItem("rotary-theme");
    } catch {
      return null; // no storage in a sandbox
    }
  })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  $("theme").addEventListener("click", () => {
    root.dataset.theme = app().isDark ? "light" : "dark";
    try {
      localStorage.setItem("rotary-theme", root.dataset.theme);
    } catch {
      // Not remembered.
    }
    app().draw();
  });
}

async function start() {
  let app = null;
  connectTheme(() => app);
  let engine;
  try {
    engine = await loadEngine(loadExplorer, WASM);
  } catch (error) {
    $("alert").textContent = `This browser cannot run the explorer: ${error.message}`;
    $("alert").hidden = false;
    return;
  }
  const given = JSON.parse($("given").textContent);
  let tabs = [];
  $("model").append(h("option", { value: "own", disabled: true }, "your own"),
    ...Object.keys(MODELS).map((name) => h("option", { value: name }, name)));
  app = new App({ engine, views: VIEWS, models: MODELS, given, elements: {
    alert: $("alert"), panel: $("panel"), title: $("title"), caption: $("caption"),
    readout: $("readout"), dial: $("dial"), svgButtons: $("copy-svg"),
    sync: (shown) => syncControls(shown, tabs), moved: syncSliders,
  } });
  tabs = makeTabs(app);
  const tour = new Tour(app, $("tour-card"));
  $("tour").addEventListener("click", () => tour.go(0));
  connectControls(app);
  connectFiles(app);
  connectKeys(app, tour);
  app.start();
  addEventListener("hashchange", () => app.follow());
  let resizing = 0;
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(() => app.draw(), 80);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.draw());
  document.body.classList.add("ready");
  performance.mark("first-picture");
  globalThis.rotaryExplorer = { app, tour };
}

start();
