// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The library: its WebAssembly, called through the C API (rotary_c.h, rotary_c_analysis.h) and
// explorer/bridge/structs.h.

/** Largest beginning of a GGUF file that is read; its metadata and rope tensors come first. */
export const MAX_FILE_BYTES = 64 * 1024 * 1024;

const MAX_MODELS = 16;
const MAX_ROPES = 64;
/** What the command calls the methods of rotary_rope_angle_errors(), in their order. */
const ANGLE_METHODS = ["float32", "bf16 table", "bf16 angle", "fast math"];

/** The two halves in which emscripten takes an int64_t. */
const int64 = (value) => [value >>> 0, Math.floor(value / 2 ** 32)];

/** An error of the library, with the line that the command prints. */
export class EngineError extends Error {}

async function unpack(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** `load`: the function that emscripten makes; `base64`: the gzipped WebAssembly. */
export async function loadEngine(load, base64) {
  const wasm = await load({ wasmBinary: await unpack(base64) });
  return new Engine(wasm);
}

/** The line that the command prints of a message: its first one, without control characters. */
function printable(bytes) {
  const end = bytes.indexOf(10);
  const line = bytes.subarray(0, end < 0 ? bytes.length : end);
  const escaped = Array.from(line, (byte) => String.fromCharCode(byte)).join("").replace(
    // A character of UTF-8 that can be printed, or one byte of anything else.
    /[ -~]|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|([^])/g,
    (all, other) => (other === undefined ? all
      : `\\x${other.charCodeAt(0).toString(16).padStart(2, "0")}`));
  return new TextDecoder().decode(Uint8Array.from(escaped, (c) => c.charCodeAt(0)));
}

/** Handles by number. The oldest of many are freed and forgotten. */
class Handles {
  #all = new Map();
  #next = 0;

  constructor(what, most, free) {
    Object.assign(this, { what, most, free });
  }

  add(handle) {
    const number = this.#next++;
    this.#all.set(number, handle);
    if (this.#all.size > this.most) this.close(this.#all.keys().next().value);
    return number;
  }

  close(number) {
    const handle = this.#all.get(number);
    if (handle === undefined) return;
    this.#all.delete(number);
    this.free(handle);
  }

  at(number) {
    const handle = this.#all.get(number);
    if (handle === undefined) throw new EngineError(`[explorer] there is no ${this.what} ${number}`);
    return handle;
  }
}

class Engine {
  #scratch = 0;
  #scratchBytes = 0;

  constructor(wasm) {
    this.wasm = wasm;
    this.out = wasm._malloc(8); // where functions write the handle or text that they make
    this.models = new Handles("model", MAX_MODELS, (handle) => wasm._rotary_model_free(handle));
    this.ropes = new Handles("rope", MAX_ROPES, ({ handle }) => wasm._rotary_rope_free(handle));
  }

  // ---- Models and ropes -------------------------------------------------------------------------

  /** Opens the bytes of a config.json, of `rotary inspect --json` or of a GGUF file; a number. */
  open(bytes, source) {
    const { wasm } = this;
    const isGguf = String.fromCharCode(...bytes.subarray(0, 4)) === "GGUF";
    return this.#strings([source], (name) => {
      const data = wasm._malloc(bytes.length + 1);
      wasm.HEAPU8.set(bytes, data);
      try {
        return this.models.add(this.#make(
          isGguf ? "rotary_model_parse_gguf" : "rotary_model_parse_config", data, bytes.length,
          name));
      } finally {
        wasm._free(data);
      }
    });
  }

  /** Its type, the names of its ropes, and the one that is shown first. */
  model({ model }) {
    const { wasm } = this;
    const handle = this.models.at(model);
    const type = this.#make("rotary_model_get_type", handle);
    this.#check(wasm._rotary_model_count_ropes(handle, this.out));
    const names = Array.from({ length: wasm.HEAPU32[this.out / 4] }, (_, k) =>
      wasm.UTF8ToString(wasm._explorer_rope_name(handle, k)));
    const first = wasm._explorer_rope_name(handle, -1);
    return { model_type: wasm.UTF8ToString(type), ropes: names,
      default: first === 0 ? names[0] : wasm.UTF8ToString(first) };
  }

  /** Makes a rope of a model: its number, and what rotary_rope_inspect() says of it. */
  rope(request) {
    const number = this.make(request);
    const made = this.ropes.at(number);
    const shown = this.#json("rotary_rope_inspect", made.handle);
    made.axes = shown.rope.axes.length;
    return { ...shown, number };
  }

  /**
   * Makes a rope and returns its number alone. `dialect` reads the model as another framework does;
   * `recipe`, a whole one, replaces that of the rope.
   */
  make({ model, rope = "", context = 0, dialect = "", recipe = null }) {
    const { wasm } = this;
    return this.#strings([rope, dialect, JSON.stringify(recipe)], (name, framework, json) => {
      let handle = this.models.at(model);
      const derived = [];
      try {
        const derive = (...call) => derived.push(handle = this.#make(...call));
        if (dialect) derive("rotary_model_in_dialect", handle, framework);
        if (recipe) derive("explorer_with_recipe", handle, name, json);
        return this.ropes.add({ axes: 1,
          handle: this.#make("rotary_rope_from_model", handle, name, ...int64(context), 0) });
      } finally {
        derived.forEach((each) => wasm._rotary_model_free(each));
      }
    });
  }

  /** The rows of its frequencies. */
  frequencies(rope, axes, pairs) {
    const at = this.wasm._explorer_frequencies(this.ropes.at(rope).handle) / 8;
    return Array.from({ length: pairs }, (_, k) =>
      [...this.wasm.HEAPF64.subarray(at + k * axes, at + (k + 1) * axes)]);
  }

  /** Frees a rope that is no longer shown. */
  close(rope) {
    this.ropes.close(rope);
  }

  dialects() {
    return this.#json("rotary_dialect_list");
  }

  // ---- Documents --------------------------------------------------------------------------------

  bounds({ rope, context }) {
    return this.#json("rotary_rope_bounds", this.ropes.at(rope).handle, ...int64(context), 0);
  }

  /** The smallest base that serves the context; null where there is no such thing. */
  base({ rope, context }) {
    const { handle } = this.ropes.at(rope);
    return this.#json("rotary_rope_bounds", handle, ...int64(context), 1).smallest_base;
  }

  compare({ a, b }) {
    return this.#json("rotary_rope_diff", this.ropes.at(a).handle, this.ropes.at(b).handle);
  }

  plan({ model, rope, context }) {
    return this.#strings([rope], (name) => this.#json("rotary_model_plan", this.models.at(model),
      name, ...int64(context), 0));
  }

  // ---- Numbers ----------------------------------------------------------------------------------

  /** RoFormer's bound and the score of equal vectors at distances, the same on every axis. */
  curves({ rope, distances }) {
    const { handle, axes } = this.ropes.at(rope);
    const n = distances.length;
    const bound = this.#numbers(distances, n, (input, output) =>
      this.wasm._rotary_rope_decay(handle, input, ...int64(n), output));
    const offsets = axes === 1 ? distances : distances.flatMap((x) => Array(axes).fill(x));
    return { bound: [...bound], score: [...this.scores(rope, offsets, axes)] };
  }

  /** cos and sin, [n x pairs] each, of n positions, [n x axes]. */
  cosSin(rope, positions, axes, pairs) {
    const n = positions.length / axes;
    const size = n * pairs;
    const both = this.#numbers(positions, 2 * size, (input, output) =>
      this.wasm._explorer_cos_sin(this.ropes.at(rope).handle, input, n, output,
        output + 8 * size));
    return { cos: both.subarray(0, size), sin: both.subarray(size) };
  }

  /** Scores of equal vectors, [n], at n offsets, [n x axes]. */
  scores(rope, offsets, axes) {
    const n = offsets.length / axes;
    return this.#numbers(offsets, n, (input, output) =>
      this.wasm._rotary_rope_scores(this.ropes.at(rope).handle, input, ...int64(n), output));
  }

  /** Errors of cos and sin, and of angles, by method at whole positions. */
  precision({ rope, positions }) {
    const { wasm } = this;
    const { handle } = this.ropes.at(rope);
    const n = positions.length;
    const memory = this.#memory(32 * n);
    const [values, angles, pairs] = [1, 2, 3].map((k) => memory + 8 * n * k);
    const whole = (at) => new BigInt64Array(wasm.HEAPU8.buffer, at, n);
    const numbers = (at) => [...wasm.HEAPF64.subarray(at / 8, at / 8 + n)];
    return { methods: ANGLE_METHODS.map((method, k) => {
      whole(memory).set(positions.map(BigInt));
      this.#check(wasm._rotary_rope_angle_errors(handle, k, memory, ...int64(n), values, angles,
        pairs));
      return { method, angle_error: numbers(angles), value_error: numbers(values),
        pair: [...whole(pairs)].map(Number) };
    }) };
  }

  // ---- Calls ------------------------------------------------------------------------------------

  #check(status) {
    if (status === 0) return;
    const { HEAPU8 } = this.wasm;
    const from = this.wasm._rotary_last_error();
    throw new EngineError(printable(HEAPU8.subarray(from, HEAPU8.indexOf(0, from))));
  }

  /** Calls a function whose last argument is where it writes a pointer. */
  #make(name, ...call) {
    this.#check(this.wasm[`_${name}`](...call, this.out));
    return this.wasm.HEAPU32[this.out / 4];
  }

  #json(name, ...call) {
    const text = this.#make(name, ...call);
    try {
      return JSON.parse(this.wasm.UTF8ToString(text));
    } finally {
      this.wasm._rotary_text_free(text);
    }
  }

  #numbers(input, size, run) {
    const { wasm } = this;
    const memory = this.#memory(8 * (input.length + size));
    wasm.HEAPF64.set(input, memory / 8);
    const output = memory + 8 * input.length;
    this.#check(run(memory, output));
    return wasm.HEAPF64.slice(output / 8, output / 8 + size);
  }

  /** Memory that is kept for the next call. */
  #memory(bytes) {
    if (bytes > this.#scratchBytes) {
      this.wasm._free(this.#scratch);
      this.#scratchBytes = 2 * bytes;
      this.#scratch = this.wasm._malloc(this.#scratchBytes);
    }
    return this.#scratch;
  }

  #strings(texts, run) {
    const { wasm } = this;
    const pointers = texts.map((text) => {
      const length = wasm.lengthBytesUTF8(text) + 1;
      const pointer = wasm._malloc(length);
      wasm.stringToUTF8(text, pointer, length);
      return pointer;
    });
    try {
      return run(...pointers);
    } finally {
      pointers.forEach((pointer) => wasm._free(pointer));
    }
  }
}
