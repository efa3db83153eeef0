#!/usr/bin/env bash
# Formats C, C++ and CUDA sources in place with the clang-format of .venv; --check only lists differences.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/logs

files=()
while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || files+=("$file")
done < <(git ls-files -z --cached --others --exclude-standard -- '*.c' '*.cc' '*.h' '*.cu' '*.cuh')

status=0
if [[ ${1:-} != --check ]]; then
  .venv/bin/clang-format -i "${files[@]}"
elif ! .venv/bin/clang-format --dry-run -Werror "${files[@]}" 2>build/logs/format.log; then
  echo "Not formatted (differences in each file); run \`make format\`:"
  grep -E ': (error|warning):' build/logs/format.log | cut -d : -f 1 | sort | uniq -c
  status=1
fi

# clang-format does not reflow comments: long lines must be wrapped by hand.
if LC_ALL=C.UTF-8 grep -nE '^.{101,}$' "${files[@]}"; then
  echo "The lines above are longer than 100 columns."
  status=1
fi
((status)) || echo "${#files[@]} files are formatted"
exit "$status"
