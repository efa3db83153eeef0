#!/usr/bin/env bash
# Checks format, scripts (shellcheck), retired words, and sources (clang-tidy, configured by .clang-tidy).
#
#   scripts/lint.sh [--quick | <source.cc> ...]     default: all sources of the default build
#
# --quick: clang-tidy for the library and the command alone, without the static analyzer, which takes most
# of the time, and for the files of a target at once, so that their common headers are checked once.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
scripts/format.sh --check || status=1

shellcheck scripts/*.sh .ci/run || status=1

# Names and phrases that the glossary of CONTRIBUTING.md has replaced. clang-tidy checks the case of
# names, not their words.
retired='\bk(Most|Least)[A-Z]|\b(GradientJob|TurnTable|StepVerdict|judge_step|PartNorms|gather_pieces)\b'
retired+='|\b(Copier|Computer)\b|[Ww]ay back|torch_where\.h'
if git grep --untracked -nE "$retired" -- '*.h' '*.cc' '*.c' '*.cu' '*.cuh' '*.inc' '*.py' '*.md' ':!CHANGELOG.md'; then
  echo "lint: use the words of the glossary (CONTRIBUTING.md) instead"
  status=1
fi

only="^$PWD/"
generated="^$PWD/build/"  # precompiled headers, header checks
torch=ON
together=OFF
checks=()
if [[ ${1:-} == --quick ]]; then
  only="^$PWD/(build/lint/)?(src|tools)/"
  generated='/cmake_pch'
  torch=OFF
  together=ON
  # The files of a target are included by one file, as if they were its headers.
  checks=('--checks=-clang-analyzer-*,-bugprone-suspicious-include'
    '--header-filter=/(include/rotary|src|tools)/.*\.(h|cc)$')
  shift
fi
mkdir -p build/logs
cmake --preset lint -DROTARY_BUILD_TORCH=$torch -DROTARY_BUILD_ROFORMER=$torch -DROTARY_UNITY_BUILD=$together \
  -DROTARY_PYTHON="$PWD/.venv/bin/python" >build/logs/lint.log
if (($#)); then
  sources=("$@")
else
  # Without generated files and CUDA sources, which clang-tidy cannot parse with recent versions of nvcc.
  mapfile -t sources < <(sed -n 's|^ *"file": "\(.*\)",\{0,1\}$|\1|p' build/lint/compile_commands.json |
    grep -v -e "$generated" -e '\.cu$' | grep -E "$only" | sort -u)
fi
echo "clang-tidy: ${#sources[@]} sources ..."
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy -p build/lint --quiet --warnings-as-errors='*' "${checks[@]}" \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument 2>build/logs/clang-tidy.log || status=1

if ((status)); then
  echo "lint: errors, see above"
else
  echo "lint: no errors"
fi
exit "$status"
