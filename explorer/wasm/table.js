// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// With emscripten's exceptions a call that may throw goes through JavaScript, which looks the
// function up in WebAssembly's table. That is slow, so functions that were looked up are kept; built
// for size, emscripten leaves that out.
mergeInto(LibraryManager.library, {
  $keptFunctions: [],
  $getWasmTableEntry__deps: ["$keptFunctions"],
  $getWasmTableEntry: function (index) {
    if (keptFunctions.length === 0) keptFunctions = new Array(wasmTable.length).fill(null);
    return keptFunctions[index] ?? (keptFunctions[index] = wasmTable.get(index));
  },
});
