#!/usr/bin/env bash
# The tests that every change must pass, optimised; `make test` runs it. `make check` adds the rest.
#
# Objects of `make run` and `make build` are reused. A new build folder is configured without the CUDA
# engine, whose tests need a GPU (scripts/gpu.sh); `make check` compiles it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stages.sh
. scripts/stages.sh

stage "Dependencies"
scripts/bootstrap.sh test
engine=()
[[ -e build/CMakeCache.txt ]] || engine=(-DROTARY_CUDA=OFF)
if scripts/venv.sh --is-complete; then
  echo "ready"
else
  echo "ready, but for the Python packages"
  stage "Library, command, tests in C++; beside it, Python packages are installed"
  mkdir -p build/logs
  scripts/venv.sh >build/logs/venv.log 2>&1 &
  packages=$!
  trap 'kill "$packages" 2>/dev/null || true' EXIT
  build_without_python "${engine[@]}"
  wait "$packages" || {
    cat build/logs/venv.log
    exit 1
  } >&2
  trap - EXIT
fi

stage "Library, commands, Python package, PyTorch operators, RoFormer, tests, examples"
build_tests "${engine[@]}"

stage "Tests"
# One more than cores: some wait for processes that they end, or for the disk.
ctest_preset test --parallel "$(($(nproc) + 1))"

summary "the tests of all parts"
