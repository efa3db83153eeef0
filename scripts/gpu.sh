#!/usr/bin/env bash
# On a machine with a GPU and nvcc: builds the CUDA kernels, holds them to the CPU engine bit for bit,
# and measures the ladder of versions against a copy of the same bytes.
#
#   scripts/gpu.sh [-D<variable>=<value> ...]
#
# What the kernels are meant to reach and did: docs/cuda.md.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset default -DROTARY_CUDA=ON -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
  -DROTARY_BUILD_TOOLS=OFF -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF -B build/gpu "$@" >/dev/null
cmake --build build/gpu --target cuda_check cuda_ladder
build/gpu/bin/cuda_check
build/gpu/bin/cuda_ladder
