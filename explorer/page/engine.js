// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The library: its WebAssembly, and calls of explorer/bridge/exports.h.

/** Largest beginning of a GGUF file that is read; its metadata and rope tensors come first. */
export const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** An error of the library, with the line that the command prints. */
export class EngineError extends Error {}

async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** `load`: the function that emscripten makes; `base64`: the gzipped WebAssembly. */
export async function loadEngine(load, base64) {
  const wasm = await load({ wasmBinary: await unpack(base64) });
  return new Engine(wasm);
}

class Engine {
  constructor(wasm) {
    this.wasm = wasm;
  }

  /** Opens the bytes of a file; returns the number of the model. */
  open(bytes, source) {
    const { wasm } = this;
    const data = wasm._malloc(bytes.length + 1);
    const name = this.#text(source);
    try {
      wasm.HEAPU8.set(bytes, data);
      return this.#answer(wasm._explorer_open(data, bytes.length, name));
    } finally {
      wasm._free(data);
      wasm._free(name);
    }
  }

  /** One of the calls of explorer/bridge/calls.h. */
  call(name, request = {}) {
    const { wasm } = this;
    const text = JSON.stringify({ call: name, ...request });
    const pointer = this.#text(text);
    try {
      return this.#answer(wasm._explorer_call(pointer, wasm.lengthBytesUTF8(text)));
    } finally {
      wasm._free(pointer);
    }
  }

  /** cos and sin, [n x pairs] each, of n positions, [n x axes]. */
  cosSin(rope, positions, axes, pairs) {
    const n = positions.length / axes;
    const size = n * pairs;
    return this.#numbers(positions, 2 * size, (input, output) =>
      this.wasm._explorer_cos_sin(rope, input, n, output, output + 8 * size),
      (all) => ({ cos: all.subarray(0, size), sin: all.subarray(size) }));
  }

  /** Scores of equal vectors, [n], at n offsets, [n x axes]. */
  scores(rope, offsets, axes) {
    const n = offsets.length / axes;
    return this.#numbers(offsets, n, (input, output) =>
      this.wasm._explorer_scores(rope, input, n, output), (all) => all);
  }

  #numbers(input, size, run, result) {
    const { wasm } = this;
    const pointer = wasm._malloc(8 * (input.length + size));
    try {
      wasm.HEAPF64.set(input, pointer / 8);
      const output = pointer + 8 * input.length;
      if (run(pointer, output) !== 0) {
        throw new EngineError(wasm.UTF8ToString(wasm._explorer_error()));
      }
      return result(wasm.HEAPF64.slice(output / 8, output / 8 + size));
    } finally {
      wasm._free(pointer);
    }
  }

  #text(text) {
    const length = this.wasm.lengthBytesUTF8(text) + 1;
    const pointer = this.wasm._malloc(length);
    this.wasm.stringToUTF8(text, pointer, length);
    return pointer;
  }

  #answer(pointer) {
    const answer = JSON.parse(this.wasm.UTF8ToString(pointer));
    if (answer.error !== undefined) throw new EngineError(answer.error);
    return answer.result;
  }
}
