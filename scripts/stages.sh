#!/usr/bin/env bash
# Sourced by scripts/test.sh, scripts/check.sh and scripts/cross.sh: stages and their times, and counts of what
# passed and failed.

passed=0
failed=0

stage_names=()
stage_begins=()  # seconds since the start: wall time, and CPU time of all processes that have ended

# children_cpu: the second number of an entry. `times` would tell a subshell its own.
children_cpu() {
  awk -v ticks="$(getconf CLK_TCK)" '{ print int(($16 + $17) / ticks) }' "/proc/$$/stat"
}

stage() {
  stage_names+=("$1")
  stage_begins+=("$SECONDS $(children_cpu)")
  printf '\n== %s  [%d s]\n' "$1" "$SECONDS"
}

# stage_table: wall and CPU time of every stage.
stage_table() {
  local i begin end
  stage_begins+=("$SECONDS $(children_cpu)")
  printf '\n%8s %8s\n' 'wall s' 'CPU s'
  for i in "${!stage_names[@]}"; do
    read -ra begin <<<"${stage_begins[i]}"
    read -ra end <<<"${stage_begins[i + 1]}"
    printf '%8d %8d  %s\n' $((end[0] - begin[0])) $((end[1] - begin[1])) "${stage_names[i]}"
  done
}

# count_check <command> ...: runs one check and counts it.
count_check() {
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

# list_skipped <report>: a line for each test of a JUnit report of ctest in which cases skipped themselves,
# with their reasons. Not for the lack of a GPU, which CI has not.
list_skipped() {
  awk '
    function show() {
      if (skipped && (reasons || !told)) print "skipped: " name ": " (told ? reasons : "no reason")
    }
    match($0, /<testcase name="[^"]*"/) {
      show()
      name = substr($0, RSTART + 16, RLENGTH - 17)
      skipped = told = 0
      reasons = ""
    }
    /\[  SKIPPED \] [0-9]+ test|[0-9]+ skipped/ { skipped = 1 }
    # The lines of pytest, and the lines after those of GoogleTest.
    after_skip || sub(/^.*SKIPPED \[[0-9]+\] /, "") {
      told = 1
      if (!/GPU|CUDA/) reasons = reasons (reasons ? "; " : "") $0
    }
    { after_skip = /: Skipped$/ }
    END { show() }' "$1"
}

# ctest_preset <preset> [<ctest argument> ...]: runs its tests and adds to the counts. In CI a test that skips
# some of its cases fails; elsewhere it is named.
ctest_preset() {
  local report total bad skipped
  report=$PWD/build/logs/ctest-$1.xml
  rm -f "$report"
  # Print results only, without the lines for the start of a test.
  PYTEST_ADDOPTS=-rs ctest --preset "$@" --output-junit "$report" --test-output-size-passed 1000000 2>&1 |
    grep --line-buffered -v '^ *Start ' || true
  if [[ ! -s $report ]]; then
    echo "ctest --preset $1 wrote no report" >&2
    exit 1
  fi
  count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1; }
  total=$(count tests)
  bad=$(($(count failures) + $(count skipped) + $(count disabled)))
  skipped=$(list_skipped "$report")
  if [[ -n $skipped ]]; then
    echo "$skipped"
    [[ -z ${CI:-} ]] || bad=$((bad + $(wc -l <<<"$skipped")))
  fi
  passed=$((passed + total - bad))
  failed=$((failed + bad))
}

# summary <what passed>: prints the times and the counts; fails if a check did.
summary() {
  stage_table
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
test_settings() {
  # In CI the compiler is known, and warnings are errors. Elsewhere a newer compiler may warn about
  # more, which must not prevent testing.
  local warnings_as_errors=OFF
  [[ -z ${CI:-} ]] || warnings_as_errors=ON
  printf '%s\n' -DROTARY_BUILD_TESTS=ON -DROTARY_BUILD_BENCHMARKS=ON -DROTARY_BUILD_ROFORMER=ON \
    -DROTARY_UNITY_BUILD=ON -DROTARY_WARNINGS_AS_ERRORS=$warnings_as_errors
}

# build_tests [-D<variable>=<value> ...]: all that tests need.
build_tests() {
  local settings
  mapfile -t settings < <(test_settings)
  scripts/build.sh default "${settings[@]}" -DROTARY_BUILD_PYTHON=ON -DROTARY_BUILD_TORCH=ON \
    -DROTARY_PYTHON="$PWD/.venv/bin/python" "$@" all
}

# build_without_python [-D<variable>=<value> ...]: of that, what needs neither Python nor PyTorch.
build_without_python() {
  local settings
  mapfile -t settings < <(test_settings)
  scripts/build.sh default "${settings[@]}" -DROTARY_BUILD_PYTHON=OFF -DROTARY_BUILD_TORCH=OFF "$@" all
}
