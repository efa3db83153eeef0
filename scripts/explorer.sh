#!/usr/bin/env bash
# Builds the explorer page, docs/explorer/index.html: the library as WebAssembly (emscripten), the page
# around it, everything in one file. `make explorer` runs it.
#
#   scripts/explorer.sh [OUT.html]
#
# Objects are kept in build/explorer. The bytes of the page depend on sources and emscripten alone.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/explorer/index.html}
log=build/logs/explorer.log
mkdir -p build/logs

quiet() {
  if ! "$@" >>"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "failed: $*; see $log" >&2
    return 1
  fi
}

: >"$log"
quiet emcmake cmake -S . -B build/explorer -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=MinSizeRel \
  -DROTARY_BUILD_EXPLORER=ON -DROTARY_BUILD_TOOLS=OFF -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
  -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_INSTALL=OFF -DROTARY_CUDA=OFF -DROTARY_OPENMP=OFF
quiet cmake --build build/explorer --target rotary_explorer_wasm
python3 explorer/pack.py build/explorer "$out"
