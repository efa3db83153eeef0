#!/usr/bin/env bash
# Configures and builds one preset quietly: a line now and then, everything in build/logs.
#
#   scripts/build.sh <preset> [-D<variable>=<value> ...] [<target> ...]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:?usage: scripts/build.sh <preset> [-D...] [<target> ...]}
shift
definitions=()
targets=()
for argument in "$@"; do
  case $argument in
    -D*) definitions+=("$argument") ;;
    *) targets+=(--target "$argument") ;;
  esac
done

mkdir -p build/logs
log=build/logs/$preset.log

fail() {
  echo "$1 failed; from $log:" >&2
  # Without the steps that went well.
  grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | tail -n 60 >&2
  exit 1
}

cmake --preset "$preset" "${definitions[@]}" >"$log" 2>&1 || fail "Configuring '$preset'"

# Ninja says [12/57]; show every fourth part of the way.
progress() {
  awk -F '[][/]' '
    /^\[[0-9]+\/[0-9]+\]/ {
      part = int(4 * $2 / $3)
      if ($3 >= 8 && part > shown && part < 4) {
        shown = part
        printf "  %d of %d steps\n", $2, $3
        fflush()
      }
    }'
}
cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" "${targets[@]}" 2>&1 |
  tee -a "$log" | progress || fail "Building '$preset'"
