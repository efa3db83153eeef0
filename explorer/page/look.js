// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The page of `roformer look`: attention weights of a text by layer and head, with and without rotation.

import { copyText, h, s, svgText } from "./dom.js";

const KINDS = { rotated: "With rotation", unrotated: "Without", difference: "Difference" };
const THUMBNAIL = 40;
const COLORS = {
  light: { paper: [255, 255, 255], more: [40, 88, 200], less: [179, 64, 14] },
  dark: { paper: [24, 28, 34], more: [126, 166, 255], less: [255, 157, 107] },
};

const $ = (id) => document.getElementById(id);

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** base64 of uint16 to weights. */
function decode(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const weights = new Float32Array(bytes.length / 2);
  for (let i = 0; i < weights.length; ++i) {
    weights[i] = (bytes[2 * i] + 256 * bytes[2 * i + 1]) / 65535;
  }
  return weights;
}

class Look {
  constructor(given) {
    this.tokens = given.tokens;
    this.heads = given.heads;
    this.layers = given.layers.map(({ rotated, unrotated }) =>
      ({ rotated: decode(rotated), unrotated: decode(unrotated) }));
    this.state = { layer: 0, head: 0, kind: "rotated", row: 0 };
    $("source").textContent = `${given.source}: ${given.text}`;
    document.title = `${given.source} · roformer look`;
    this.thumbnails = [];
    this.makeHeads();
    this.draw();
  }

  /** [tokens x tokens] of a head. */
  weights(layer, head, kind) {
    const size = this.tokens.length ** 2;
    const part = (name) => this.layers[layer][name].subarray(head * size, (head + 1) * size);
    if (kind !== "difference") return part(kind);
    const without = part("unrotated");
    return part("rotated").map((value, i) => value - without[i]);
  }

  picture(weights) {
    const n = this.tokens.length;
    const { paper, more, less } = COLORS[isDark() ? "dark" : "light"];
    const canvas = document.createElement("canvas");
    canvas.width = n;
    canvas.height = n;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(n, n);
    for (let i = 0; i < n * n; ++i) {
      // The square root shows small weights.
      const size = Math.sqrt(Math.min(1, Math.abs(weights[i])));
      const end = weights[i] < 0 ? less : more;
      for (let k = 0; k < 3; ++k) {
        pixels.data[4 * i + k] = paper[k] + (end[k] - paper[k]) * size;
      }
      pixels.data[4 * i + 3] = 255;
    }
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  makeHeads() {
    const grid = $("heads");
    grid.style.setProperty("--heads", this.heads);
    this.layers.forEach((_, layer) => {
      for (let head = 0; head < this.heads; ++head) {
        const canvas = h("canvas", { width: THUMBNAIL, height: THUMBNAIL, "aria-hidden": "true" });
        const button = h("button", { type: "button", "aria-label": `Layer ${layer}, head ${head}`,
          onclick: () => this.set({ layer, head }) }, canvas);
        grid.append(button);
        this.thumbnails.push({ canvas, button, layer, head });
      }
    });
  }

  set(changes) {
    this.state = { ...this.state, ...changes };
    this.draw();
  }

  draw() {
    const { layer, head, kind } = this.state;
    const kindKey = `${kind}${isDark()}`;
    for (const each of this.thumbnails) {
      each.button.setAttribute("aria-pressed",
        String(each.layer === layer && each.head === head));
      if (this.drawnKind === kindKey) continue;
      const context = each.canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(this.picture(this.weights(each.layer, each.head, kind)), 0, 0, THUMBNAIL,
        THUMBNAIL);
    }
    this.drawnKind = kindKey;
    $("title").textContent = `Layer ${layer}, head ${head}`;
    $("kinds").replaceChildren(...Object.entries(KINDS).map(([id, name]) => h("button", {
      type: "button", class: "choice", "data-choice": id, "aria-pressed": String(id === kind),
      onclick: () => this.set({ kind: id }) }, name)));
    this.drawMap();
    this.drawReadout();
  }

  drawMap() {
    const { layer, head, kind } = this.state;
    const n = this.tokens.length;
    const room = $("panel").clientWidth;
    const label = Math.min(90, room / 4);
    const cell = Math.max(3, Math.min(30, (room - label) / n));
    const font = Math.min(12, Math.max(0, cell - 1));
    const size = cell * n;
    const weights = this.weights(layer, head, kind);
    const svg = s("svg", { viewBox: `0 0 ${label + size} ${label + size}`, width: label + size,
      height: label + size, class: "chart live", role: "img",
      "aria-label": `Attention weights of layer ${layer}, head ${head}, ` +
        `${KINDS[kind].toLowerCase()}, ${n} tokens` });
    svg.append(s("image", { href: this.picture(weights).toDataURL(), x: label, y: label,
      width: size, height: size, style: "image-rendering:pixelated" }));
    if (font >= 7) {
      this.tokens.forEach((token, i) => {
        const at = label + (i + 0.72) * cell;
        const text = token.length > 10 ? `${token.slice(0, 9)}…` : token;
        svg.append(
          s("text", { x: label - 6, y: at, "text-anchor": "end", "font-size": font,
            fill: "var(--ink)" }, text),
          s("text", { transform: `translate(${at} ${label - 6}) rotate(-60)`, "font-size": font,
            fill: "var(--ink)" }, text));
      });
    }
    svg.append(s("rect", { x: label, y: label + this.state.row * cell, width: size, height: cell,
      fill: "none", stroke: "var(--ink)", "data-live": true }));
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const y = ((event.clientY - box.top) / box.height) * (label + size);
      this.set({ row: Math.min(n - 1, Math.max(0, Math.floor((y - label) / cell))) });
    });
    $("panel").replaceChildren(svg);
  }

  /** The tokens that the chosen one attends to most. */
  drawReadout() {
    const { layer, head, row } = this.state;
    const n = this.tokens.length;
    const line = (kind) => this.weights(layer, head, kind).subarray(row * n, (row + 1) * n);
    const top = (kind) => [...line(kind)].map((value, i) => [value, i]).sort((a, b) => b[0] - a[0])
      .slice(0, 3).map(([value, i]) => `${this.tokens[i]} ${value.toFixed(3)}`).join("   ");
    $("readout").replaceChildren(...[["token", `${this.tokens[row]} (${row})`],
      ["with rotation", top("rotated")], ["without", top("unrotated")]].map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  get data() {
    const { layer, head } = this.state;
    const rows = (kind) => {
      const n = this.tokens.length;
      const weights = this.weights(layer, head, kind);
      return this.tokens.map((_, i) => [...weights.subarray(i * n, (i + 1) * n)]);
    };
    return { layer, head, tokens: this.tokens, rotated: rows("rotated"),
      unrotated: rows("unrotated") };
  }
}

function start() {
  const given = JSON.parse($("given").textContent);
  if (given === null) {
    $("alert").textContent = "This page is empty; roformer look writes one with a text.";
    $("alert").hidden = false;
    return;
  }
  const look = new Look(given);
  $("copy-json").addEventListener("click", (event) =>
    copyText(JSON.stringify(look.data), event.target));
  $("copy-svg").addEventListener("click", (event) =>
    copyText(svgText($("panel").querySelector("svg")), event.target));
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    look.draw();
  });
  addEventListener("keydown", (event) => {
    const { layer, head, kind } = look.state;
    const clamp = (value, most) => Math.min(most, Math.max(0, value));
    const keys = {
      ArrowRight: () => ({ head: clamp(head + 1, look.heads - 1) }),
      ArrowLeft: () => ({ head: clamp(head - 1, look.heads - 1) }),
      ArrowDown: () => ({ layer: clamp(layer + 1, look.layers.length - 1) }),
      ArrowUp: () => ({ layer: clamp(layer - 1, look.layers.length - 1) }),
      r: () => ({ kind: kind === "rotated" ? "unrotated" : "rotated" }),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "d") {
      $("theme").click();
      return;
    }
    if (!keys[event.key]) return;
    event.preventDefault();
    look.set(keys[event.key]());
  });
  addEventListener("resize", () => look.drawMap());
  globalThis.rotaryLook = look;
  document.body.classList.add("ready");
}

start();
