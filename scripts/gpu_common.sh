#!/usr/bin/env bash
# Shared by the scripts for machines with a GPU, which source it and define a function usage().

# shellcheck disable=SC2034  # used by the scripts that source it
build=1 results='' definitions=() failed=0

# parse_options <name> ... -- <argument> ...: --<name> sets the variable <name> to 1; --results DIR, --no-build and
# -D... set those above.
# shellcheck disable=SC2034
parse_options() {
  local names=' '
  while [[ $1 != -- ]]; do
    names+="$1 "
    shift
  done
  shift
  while (($#)); do
    case $1 in
      --no-build) build=0 ;;
      --results)
        results=${2:?--results needs a folder}
        shift
        ;;
      -D*) definitions+=("$1") ;;
      -h | --help)
        usage
        exit 0
        ;;
      *)
        if [[ $1 != --* || $names != *" ${1#--} "* ]]; then
          usage >&2
          exit 2
        fi
        declare -g "${1#--}=1"
        ;;
    esac
    shift
  done
}

say() { printf '\n== %s  [%d s]\n' "$1" "$SECONDS"; }
fail() {
  echo "FAILED: $1"
  failed=$((failed + 1))
}
# need <program> <why>
need() {
  command -v "$1" >/dev/null 2>&1 || {
    echo "${0##*/}: $1 is not on the PATH: $2" >&2
    exit 2
  }
}

# build_targets <folder> <logs> <definition> ... -- <target> ...: prints nothing unless it fails.
build_targets() {
  local folder=$1 log=$2 options=()
  shift 2
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  mkdir -p "$log"
  cmake --preset default -B "$folder" -DROTARY_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native "${options[@]}" \
    "${definitions[@]}" >"$log/configure.log" 2>&1 ||
    { tail -n 30 "$log/configure.log" && echo "${0##*/}: configuring failed" && exit 2; } >&2
  cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target "$@" >"$log/build.log" 2>&1 ||
    { grep -v '^\[[0-9]*/[0-9]*\] ' "$log/build.log" | tail -n 60 && echo "${0##*/}: building failed" && exit 2; } >&2
}

# Prints a summary; the exit status is the number of parts that failed.
finish() {
  printf '\n%s (%d s)\n' "$( ((failed)) && echo "$failed parts failed, see above." || echo "All parts passed.")" "$SECONDS"
  exit "$failed"
}
