#!/usr/bin/env bash
# All checks that a change must pass before it is merged; `make check` runs it.
#
#   scripts/check.sh [--rest]     --rest: without `make test`, which has just been run
#
# After `make test`: lint, the packages as others build and install them, the explorer, the CUDA engine compiled, hooks,
# the tests under the address, undefined behaviour and thread sanitizers, a short run of the fuzz targets,
# and the other architecture in an emulator. A failed build ends the run; a failed test does not, so
# that one run reports all failures.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stages.sh
. scripts/stages.sh

fuzz_seconds=${FUZZ_SECONDS:-6}

if [[ ${1:-} != --rest ]]; then
  stage "make test"
  count_check scripts/test.sh
fi

stage "Dependencies"
scripts/bootstrap.sh check
scripts/venv.sh
echo "ready"

stage "Lint; every public header compiles alone"
count_check scripts/lint.sh --quick
count_check scripts/build.sh default all_verify_interface_header_sets

stage "Packages, new clone, wheel; beside them the explorer in Node and Chromium"
# In CI only the page in the repository, which these tests compare with the library: emscripten takes 800 MB and minutes.
[[ -n ${CI:-} ]] || count_check scripts/explorer.sh build/explorer/index.html
ctest_preset package

stage "CUDA engine"
# Fewer GPU architectures, where no GPU will run the kernels, halve the compile time.
architectures=()
[[ -z ${CUDA_ARCHITECTURES:-} ]] || architectures=("-DCMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
build_tests -DROTARY_CUDA=AUTO "${architectures[@]}"
if grep -q '^-- rotary: CUDA engine ON' build/logs/default.log; then
  echo "compiled with its tests, which scripts/gpu.sh runs on a GPU"
else
  echo "not compiled: no CUDA compiler found"
fi
ctest_preset cuda

stage "Hooks into other projects, those that are small"
# JAX takes 600 MB: not in CI.
small_hooks=(onnx)
[[ -n ${CI:-} ]] || small_hooks+=(jax)
count_check scripts/hooks.sh "${small_hooks[@]}"

stage "Address and undefined behaviour sanitizers"
scripts/build.sh asan -DROTARY_PYTHON="$PWD/.venv/bin/python" -DROTARY_BUILD_TORCH=ON \
  -DROTARY_BUILD_ROFORMER=ON -DROTARY_PYTHON_PACKAGE="$PWD/build/python" \
  -DROTARY_FUZZ_SECONDS="$fuzz_seconds" -DROTARY_FUZZ_SEED=1
ctest_preset asan --parallel "$(($(nproc) + 1))"

stage "Fuzz targets, ${fuzz_seconds} s each"
ctest_preset fuzz

stage "Thread sanitizer, the tests that use threads"
scripts/build.sh threads -DROTARY_BUILD_ROFORMER=ON
ctest_preset threads

stage "The other architecture, in an emulator"
count_check scripts/cross.sh

summary "lint, packages, explorer, CUDA engine, hooks, sanitizers, fuzz targets, the other architecture"
