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
scripts/venv.sh
echo "ready"

stage "Library, commands, Python package, PyTorch operators, RoFormer, tests, examples"
engine=()
[[ -e build/CMakeCache.txt ]] || engine=(-DROTARY_CUDA=OFF)
build_tests "${engine[@]}"

stage "Tests"
ctest_preset test

summary "the tests of all parts"
