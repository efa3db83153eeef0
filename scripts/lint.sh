#!/usr/bin/env bash
# Format, shellcheck and clang-tidy (.clang-tidy says what it looks for) over our own sources.
#
#   scripts/lint.sh [<source.cc> ...]     all sources of the default build, if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
scripts/format.sh --check || status=1

shellcheck scripts/*.sh .ci/run || status=1

if (($#)); then
  sources=("$@")
else
  # Generated files (precompiled headers, header checks) lie under build; clang-tidy does not know the
  # nvcc of the day.
  mapfile -t sources < <(sed -n 's|^ *"file": "\(.*\)",\{0,1\}$|\1|p' build/compile_commands.json |
    grep -v -e "^$PWD/build/" -e '\.cu$' | sort -u)
fi
echo "clang-tidy: ${#sources[@]} sources ..."
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy -p build --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option 2>build/logs/clang-tidy.log || status=1

if ((status)); then
  echo "lint: see above"
else
  echo "lint: nothing to say"
fi
exit "$status"
