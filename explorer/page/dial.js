// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The chosen pair as a large dial, which turns the position when it is dragged.

import { h, s, si } from "./dom.js";

const R = 84;

export class Dial {
  constructor(app) {
    this.app = app;
    this.arc = s("path", { fill: "var(--c1)", "fill-opacity": 0.14 });
    this.hand = s("line", { stroke: "var(--c1)", "stroke-width": 4, "stroke-linecap": "round" });
    this.tip = s("circle", { r: 8, fill: "var(--c1)", stroke: "var(--card)", "stroke-width": 2 });
    this.shadows = s("path", { stroke: "var(--c2)", "stroke-width": 1.5, fill: "none",
      "stroke-dasharray": "3 3" });
    this.svg = s("svg", { viewBox: "-100 -100 200 200", class: "dial-large", role: "slider",
      tabindex: "0", "aria-label": "Position, as the angle of the chosen pair",
      "aria-valuemin": 0 },
    s("circle", { r: R, fill: "var(--tint)", stroke: "var(--line)", "stroke-width": 1.5 }),
    s("path", { d: `M${-R} 0H${R}M0 ${-R}V${R}`, stroke: "var(--grid)" }),
    this.arc, this.shadows, this.hand, this.tip);
    this.words = h("p", { class: "dial-words", "aria-live": "off" });
    this.#drag();
  }

  get element() {
    return h("div", { class: "dial-box" }, this.svg, this.words);
  }

  move() {
    const { app } = this;
    const { cos, sin } = app.at();
    const unit = app.rope.rope.scale;
    const [x, y] = [(R * cos) / unit, (-R * sin) / unit];
    for (const [name, value] of [["x2", x], ["y2", y]]) this.hand.setAttribute(name, value);
    this.tip.setAttribute("cx", x);
    this.tip.setAttribute("cy", y);
    this.shadows.setAttribute("d", `M${x} ${y}V0M${x} ${y}H0`);
    const r = R * 0.42;
    const turned = Math.atan2(sin, cos);
    const large = (turned + 2 * Math.PI) % (2 * Math.PI) > Math.PI ? 1 : 0;
    this.arc.setAttribute("d", `M0 0L${r} 0A${r} ${r} 0 ${large} 0 ${r * Math.cos(turned)} ` +
      `${-r * Math.sin(turned)}Z`);
    const wavelength = app.rope.wavelengths[app.state.pair];
    const { position } = app.state;
    const text = wavelength === null ? `Pair ${app.state.pair} is not rotated.`
      : `Pair ${app.state.pair} turns once in ${si(wavelength)} positions: ` +
        `${si(position / wavelength)} turns at ${position}.`;
    this.words.textContent = text;
    this.svg.setAttribute("aria-valuenow", position);
    this.svg.setAttribute("aria-valuemax", app.context - 1);
    this.svg.setAttribute("aria-valuetext", text);
  }

  #drag() {
    let last = null;
    const angle = (event) => {
      const box = this.svg.getBoundingClientRect();
      return Math.atan2(box.top + box.height / 2 - event.clientY,
        event.clientX - box.left - box.width / 2);
    };
    this.svg.addEventListener("pointerdown", (event) => {
      last = angle(event);
      this.exact = this.app.state.position;
      this.svg.setPointerCapture(event.pointerId);
      event.preventDefault();
      this.svg.focus();
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const now = angle(event);
      let step = now - last;
      if (step > Math.PI) step -= 2 * Math.PI;
      if (step < -Math.PI) step += 2 * Math.PI;
      last = now;
      const wavelength = this.app.rope.wavelengths[this.app.state.pair];
      if (wavelength === null) return;
      const way = this.app.rope.rope.recipe.direction === "backward" ? -1 : 1;
      this.exact += (way * step * wavelength) / (2 * Math.PI);
      this.exact = Math.min(this.app.context - 1, Math.max(0, this.exact));
      this.app.set({ position: Math.round(this.exact) });
    });
    const end = () => (last = null);
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
  }
}
