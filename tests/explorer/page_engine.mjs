// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Runs the WebAssembly of a built page in Node:
//   node page_engine.mjs PAGE.html < [{"source", "base64", "positions"}, ...]
// Prints, for each file, its error or every rope with cos and sin at the positions.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const page = readFileSync(process.argv[2], "utf8");
const engineModule = new URL("../../explorer/page/engine.js", import.meta.url);

/** The loader and the WebAssembly, as they stand in the page. */
function packed() {
  const from = page.indexOf('"use strict";(() => {\n');
  const at = page.indexOf('\nconst WASM = "', from);
  const end = page.indexOf('";\n', at);
  if (from < 0 || at < 0) throw new Error("the page holds no WebAssembly");
  const loader = page.slice(from + '"use strict";(() => {\n'.length, at);
  return { loader, base64: page.slice(at + '\nconst WASM = "'.length, end) };
}

const { loader, base64 } = packed();
const source = Buffer.from(readFileSync(engineModule)).toString("base64");
const { loadEngine } = await import(`data:text/javascript;base64,${source}`);
const load = new Function("require", "__filename", "__dirname", `${loader}\nreturn loadExplorer;`)(
  createRequire(import.meta.url), import.meta.url, ".");
const engine = await loadEngine(load, base64);

function describe({ source: name, base64: bytes, positions }) {
  const model = engine.open(Buffer.from(bytes, "base64"), name);
  const { model_type: type, ropes } = engine.model({ model });
  return { model_type: type, ropes: ropes.map((rope) => {
    const made = engine.rope({ model, rope });
    const axes = made.rope.axes.length;
    const pairs = made.wavelengths.length;
    const expanded = positions.flatMap((p) => Array(axes).fill(p));
    const { cos, sin } = engine.cosSin(made.number, expanded, axes, pairs);
    return { ...made, cos: [...cos], sin: [...sin] };
  }) };
}

const answers = JSON.parse(readFileSync(0, "utf8")).map((file) => {
  try {
    const answer = describe(file);
    for (const [name, request] of file.calls ?? []) {
      answer[name] = engine[name]({ rope: answer.ropes[0].number, ...request });
    }
    return answer;
  } catch (error) {
    return { error: error.message };
  }
});
process.stdout.write(JSON.stringify(answers));
