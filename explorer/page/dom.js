// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Elements, numbers as text, and the clipboard.

/** An element: attributes, then children (elements or text). `on...` attributes are listeners. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A number of positions: in full up to millions. */
export function count(value) {
  return value < 1e7 ? String(value) : si(value);
}

/** Three digits and a prefix: 6.28, 48.3k, 2.56M. */
export function si(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && size < 0.01) return value.toExponential(1).replace("e-", "e\u2212");
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.9995) return `${trimmed(value / unit)}${name}`;
  }
  return trimmed(value);
}

function trimmed(value) {
  const text = value.toPrecision(3);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : String(Number(text));
}

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, as in some pages from file://.
    const area = h("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  if (button) {
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = before), 1200);
  }
}

/** The text of an <svg>, colours resolved, so that it can stand alone. */
export function svgText(svg) {
  const style = getComputedStyle(document.documentElement);
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "system-ui, sans-serif");
  copy.setAttribute("font-size", "12");
  for (const live of copy.querySelectorAll("[data-live]")) live.remove();
  const box = svg.viewBox.baseVal;
  copy.prepend(s("rect", { width: box.width, height: box.height, fill: "var(--card)" }));
  return new XMLSerializer().serializeToString(copy)
    .replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}
