#!/usr/bin/env bash
# Sourced by scripts/test.sh, scripts/check.sh and scripts/cross.sh: stages, and counts of what passed and failed.

passed=0
failed=0

stage() { printf '\n== %s  [%d s]\n' "$1" "$SECONDS"; }

# count_check <command> ...: runs one check and counts it.
count_check() {
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

# ctest_preset <preset> [<ctest argument> ...]: runs its tests and adds to the counts.
ctest_preset() {
  local report total bad
  report=$PWD/build/logs/ctest-$1.xml
  rm -f "$report"
  # Print results only, without the lines for the start of a test.
  ctest --preset "$@" --output-junit "$report" 2>&1 | grep -v '^ *Start ' || true
  if [[ ! -s $report ]]; then
    echo "ctest --preset $1 wrote no report" >&2
    exit 1
  fi
  count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
  total=$(count tests)
  bad=$(($(count failures) + $(count skipped) + $(count disabled)))
  passed=$((passed + total - bad))
  failed=$((failed + bad))
}

# summary <what passed>: prints the counts; fails if a check did.
summary() {
  printf '\n'
  if ((failed)); then
    echo "Some tests failed, see above (${SECONDS} s)."
  else
    echo "All passed (${SECONDS} s): $1."
  fi
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

# Settings of the default build that are the same for tests and for all later stages.
build_tests() {
  # In CI the compiler is known, and warnings are errors. Elsewhere a newer compiler may warn about
  # more, which must not prevent testing.
  local warnings_as_errors=OFF
  [[ -z ${CI:-} ]] || warnings_as_errors=ON
  scripts/build.sh default -DROTARY_BUILD_TESTS=ON -DROTARY_BUILD_BENCHMARKS=ON \
    -DROTARY_BUILD_PYTHON=ON -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
    -DROTARY_UNITY_BUILD=ON -DROTARY_WARNINGS_AS_ERRORS=$warnings_as_errors \
    -DROTARY_PYTHON="$PWD/.venv/bin/python" "$@" all all_verify_interface_header_sets
}
