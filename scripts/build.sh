#!/usr/bin/env bash
# Configures and builds one preset, printing only progress; the full output is in build/logs.
#
#   scripts/build.sh <preset> [-D<variable>=<value> ...] [<target> ...]
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

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

# Otherwise ccache does not cache what includes a precompiled header.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros}
# The precompiled header of PyTorch has 600 MB: its hash is kept, and not computed for every source.
export CCACHE_INODECACHE=${CCACHE_INODECACHE:-true}

mkdir -p build/logs
log=build/logs/$preset.log

fail() {
  echo "$1 failed; from $log:" >&2
  # Without the lines of successful steps.
  grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | tail -n 60 >&2
  exit 1
}

# configured: true if the build folder has these settings. CMake configures again by itself when one of its
# files changes, but for the presets.
configured() {
  local folder=build name
  case $preset in
    default) ;;
    fuzz) folder=build/asan ;;
    threads) folder=build/tsan ;;
    *) return 1 ;;
  esac
  [[ -e $folder/build.ninja && ! CMakePresets.json -nt $folder/CMakeCache.txt ]] || return 1
  for definition in "${definitions[@]}"; do
    name=${definition#-D}
    grep -q "^${name%%=*}:[A-Z]*=${name#*=}\$" "$folder/CMakeCache.txt" || return 1
  done
}

: >"$log"
configured || with_progress "$log" configuring cmake --preset "$preset" "${definitions[@]}" ||
  fail "Configuring '$preset'"
with_progress "$log" building cmake --build --preset "$preset" --parallel "${JOBS:-$(nproc)}" "${targets[@]}" ||
  fail "Building '$preset'"
