// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the page shows, and its form in the fragment of the address.

export const INITIAL = {
  model: "llama-3.1-8b", // a bundled model, or "own"
  text: "", // of an own model
  rope: "",
  view: "wavelengths",
  position: 200,
  pair: 20,
  context: 0, // wanted; 0: twice the extended one
  others: ["recipe:plain", ""], // overlaid in Compare: "", "dialect:vllm@0.32", "recipe:yarn:4"
  map: "phases",
  span: "near", // columns of the phase map: "near" or "all"
  plane: 0, // offset on the axis that is not drawn
};

/** Characters of an own model that a link carries. */
const MAX_LINK_TEXT = 100000;

const KEYS = {
  m: "model", r: "rope", v: "view", p: "position", i: "pair", c: "context", map: "map", span: "span",
  z: "plane",
};
const NUMBERS = new Set(["position", "pair", "context", "plane"]);

/** The fragment for a state: "#m=llama-2-7b&v=decay&p=512". Defaults are left out. */
export function toFragment(state) {
  const parts = [];
  for (const [key, name] of Object.entries(KEYS)) {
    if (state[name] !== INITIAL[name]) parts.push(`${key}=${encodeURIComponent(state[name])}`);
  }
  if (String(state.others) !== String(INITIAL.others)) {
    parts.push(`x=${state.others.map(encodeURIComponent).join(",")}`);
  }
  if (state.model === "own" && state.text.length <= MAX_LINK_TEXT) parts.push(`t=${toBase64(state.text)}`);
  return parts.length ? `#${parts.join("&")}` : "#";
}

/** The state of a fragment. What is not understood is left at its default. */
export function fromFragment(fragment) {
  const state = { ...INITIAL, others: [...INITIAL.others] };
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    const key = part.slice(0, at);
    try {
      const value = part.slice(at + 1);
      if (key === "x") {
        state.others = value.split(",").slice(0, 2).map(decodeURIComponent);
        while (state.others.length < 2) state.others.push("");
      } else if (key === "t") {
        state.text = fromBase64(value);
      } else if (Object.hasOwn(KEYS, key)) {
        const name = KEYS[key];
        const text = decodeURIComponent(value);
        if (!NUMBERS.has(name)) state[name] = text;
        else if (Number.isFinite(Number(text))) state[name] = Number(text);
      }
    } catch {
      // A damaged link shows what is left of it.
    }
  }
  return state;
}

function toBase64(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
}
