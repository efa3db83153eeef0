#!/usr/bin/env bash
# Everything that must hold before a change goes in. `make test` calls it.
#
# Stages: format, the optimised build and its tests, the tests under the address, undefined behaviour
# and thread sanitizers, a short run of the fuzz targets. A build that fails ends the run; a test
# that fails does not, so that one run tells all.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzz_seconds=${FUZZ_SECONDS:-6}
passed=0
failed=0

stage() { printf '\n== %s  [%d s]\n' "$1" "$SECONDS"; }

# ctest <preset>: runs its tests and adds to the counts.
ctest_preset() {
  local report
  report=$PWD/build/logs/ctest-$1.xml
  rm -f "$report"
  # The lines that a test starts are left out, those with its result stay.
  ctest --preset "$1" --output-junit "$report" 2>&1 | grep -v '^ *Start ' || true
  if [[ ! -s $report ]]; then
    echo "ctest --preset $1 wrote no report" >&2
    exit 1
  fi
  count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
  local total bad
  total=$(count tests)
  bad=$(($(count failures) + $(count skipped) + $(count disabled)))
  passed=$((passed + total - bad))
  failed=$((failed + bad))
}

stage "What the tests need"
scripts/bootstrap.sh test
scripts/venv.sh
echo "ready"

stage "Format"
if scripts/format.sh --check; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
fi

stage "Library, command, Python package, PyTorch operators, tests, examples, benchmarks"
# Where CI runs the compiler is known, and a warning is an error. A compiler that we have not met
# may warn of more; that must not keep anyone from testing.
warnings_as_errors=OFF
[[ -z ${CI:-} ]] || warnings_as_errors=ON
# Kernels for some GPUs alone, where nothing will run them: half the time of compiling.
architectures=()
[[ -z ${CUDA_ARCHITECTURES:-} ]] || architectures=("-DCMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
scripts/build.sh default -DROTARY_BUILD_TESTS=ON -DROTARY_BUILD_BENCHMARKS=ON \
  -DROTARY_BUILD_PYTHON=ON -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
  -DROTARY_UNITY_BUILD=ON -DROTARY_WARNINGS_AS_ERRORS=$warnings_as_errors "${architectures[@]}" \
  -DROTARY_PYTHON="$PWD/.venv/bin/python" all all_verify_interface_header_sets
if grep -q '^-- rotary: CUDA engine ON' build/logs/default.log; then
  echo "CUDA engine: compiled with its tests, which scripts/gpu.sh runs on a GPU"
else
  echo "CUDA engine: not compiled (no CUDA compiler found, or ROTARY_CUDA=OFF)"
fi
ctest_preset default

stage "Address and undefined behaviour sanitizers"
scripts/build.sh asan -DROTARY_PYTHON="$PWD/.venv/bin/python" -DROTARY_BUILD_ROFORMER=ON \
  -DROTARY_FUZZ_SECONDS="$fuzz_seconds" -DROTARY_FUZZ_SEED=1
ctest_preset asan

stage "Fuzz targets, ${fuzz_seconds} s each"
ctest_preset fuzz

stage "Thread sanitizer, the tests that use threads"
scripts/build.sh threads -DROTARY_BUILD_ROFORMER=ON
ctest_preset threads

printf '\n'
if ((failed)); then
  echo "Some tests failed, see above (${SECONDS} s)."
else
  echo "All tests passed (${SECONDS} s): format, optimised, sanitizers, fuzz."
fi
echo "$passed passed, $failed failed"
((failed == 0))
