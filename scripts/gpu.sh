#!/usr/bin/env bash
# On a machine with a GPU and nvcc: builds the CUDA engine, tests it, looks for bad accesses and races,
# measures it, and keeps the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END'
usage: scripts/gpu.sh [--tests] [--sanitize] [--bench] [--counters] [--results DIR] [--no-build]
                      [-D<variable>=<value> ...]

  --tests        every case of the table-driven test on the GPU, against the double reference and the CPU
                 engine; every other call, graphs, streams, sizes, errors; the example of a decoding graph
  --sanitize     most of the tests under compute-sanitizer memcheck and initcheck, and a part that starts
                 every kernel and every build of it under racecheck
  --bench        random jobs against the CPU engine, then the ladder of kernels against a copy of the same
                 bytes (docs/cuda.md)
  --counters     hardware counters of single launches, by ncu
  --results DIR  where <gpu>.json and <gpu>.txt go; bench/results when all parts are run, otherwise nowhere
  --no-build     takes what build/gpu holds
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

None of the four named: all of them. Ends with the number of parts that failed; 0 is good.
END
}

tests=0 sanitize=0 bench=0 counters=0
parse_options tests sanitize bench counters -- "$@"
((tests + sanitize + bench + counters)) || tests=1 sanitize=1 bench=1 counters=1
((tests + sanitize + bench + counters < 4)) || results=${results:-bench/results}

bin=build/gpu/bin
log=build/gpu/logs
parts=()  # of the JSON

note() { echo "$1" | tee -a "$log/notes.txt"; }

# Everything but tensors of gigabytes, a planted error of the API, three of four types of the big table, two of the
# heads of 100,000 elements, and of the large amounts all but one launch of each build that takes them;
# and, for racecheck, which takes far longer, what starts every kernel and, in one type or another, every build of it:
# packs and odd heads, positions in every form, tables, gradients, 8 bits, large heads, large amounts, overlapping
# launches.
most='-*CudaRotate.*/float*:CudaHuge.*:CudaLargeAmounts.TokensOfEverySize:CudaRefused.AStreamThatTakesNothing'
most+=':CudaC.ErrorsOfTheDevice:*CudaLargeHeads.FromPairingToPairingInPlace/*16'
subset='*CudaCalls.SixteenOperands/*:*CudaCalls.MemoryThatEndsWithTheView/*'
subset+=':*CudaCalls.PositionsInEveryForm/bfloat16:*CudaCalls.PositionsInEveryForm/float64'
subset+=':*CudaTable.NoRowIsNan/*:*CudaFloat8.BesideOthersAndByTable/*:*CudaFloat8.RoundsToTheNearest/*'
subset+=':CudaGraph.ChainsThatOverlap:CudaGraph.StreamsAndThreads:CudaGradient.OnlyWhatIsWanted'
subset+=':CudaLarge.TablesOfManyPairs:*CudaLargeHeads.ManyPairs/float16:*CudaTable.CosSin/float32'
subset+=':*CudaLargeHeads.FromPairingToPairingInPlace/float64:*CudaAmounts.ManyShortTokens/bfloat16'
subset+=':CudaLargeAmounts.EveryBuildOnce:*CudaLargeGradient.InPacks/*'

build_all() {
  local targets=()
  ((tests)) && targets+=(rotary_example_decode_graph)
  ((tests + sanitize)) && targets+=(cuda_tests)
  ((bench)) && targets+=(cuda_check)
  ((bench + counters)) && targets+=(cuda_ladder)
  say "Build: ${targets[*]}"
  build_targets build/gpu "$log" -DROTARY_GPU_TESTS=ON -DROTARY_BUILD_TOOLS=OFF -DROTARY_INSTALL=OFF -- "${targets[@]}"
}

run_tests() {
  say "Tests"
  local start=$SECONDS status=passed last=build/gpu/Testing/Temporary/LastTest.log cases calls replays
  ctest --test-dir build/gpu -L gpu -j 3 --no-tests=error --output-on-failure 2>&1 | tee "$log/tests.txt" |
    grep -v '^ *Start ' || status=failed
  [[ $status == passed ]] || fail "tests"
  cases=$(sed -n 's/^big table: \([0-9]*\) cases.*/\1/p' "$last")
  note "tests, ${cases:=0} cases of the big table among them: $status in $((SECONDS - start)) s"
  parts+=("\"tests\": {\"result\": \"$status\", \"table_cases\": $cases, \"seconds\": $((SECONDS - start))}")
  calls=$(sed -n 's/^calls *\([0-9.]*\) us a step.*/\1/p' "$last")
  replays=$(sed -n 's/^replays *\([0-9.]*\) us a step.*/\1/p' "$last")
  [[ -n $calls && -n $replays ]] || return 0
  note "decoding step of 32 layers and 16 sequences, waited for by the host: calls $calls us, a graph $replays us"
  parts+=("\"decode_step\": {\"calls_us\": $calls, \"graph_us\": $replays}")
}

# A tool that finds nothing may be one that looks at nothing: it must find what is planted.
finds_planted() {
  ! compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/cuda_tests" --gtest_also_run_disabled_tests \
    "--gtest_filter=CudaPlanted.*$2" >"$log/planted-$1.txt" 2>&1 && grep -q 'SUMMARY: [1-9]' "$log/planted-$1.txt"
}

run_sanitizers() {
  local tool filter status start list=()
  finds_planted memcheck OutOfBounds || fail "memcheck does not find a planted access out of bounds"
  finds_planted initcheck Uninitialised || fail "initcheck does not find a planted read of nothing"
  finds_planted racecheck Race || fail "racecheck does not find a planted race"
  for tool in memcheck racecheck initcheck; do
    say "compute-sanitizer $tool"
    status=passed
    start=$SECONDS
    filter=$most
    [[ $tool != racecheck ]] || filter=$subset
    compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$bin/cuda_tests" --gtest_brief=1 \
      "--gtest_filter=$filter" >"$log/$tool.txt" 2>&1 || status=failed
    grep -E 'tests ran|PASSED|FAILED|SUMMARY|RACECHECK' "$log/$tool.txt" || true
    if [[ $status == failed ]]; then
      head -n 60 "$log/$tool.txt"
      fail "$tool"
    fi
    note "compute-sanitizer $tool: $status in $((SECONDS - start)) s"
    list+=("\"$tool\": {\"result\": \"$status\", \"seconds\": $((SECONDS - start))}")
  done
  parts+=("\"sanitizer\": {$(join "${list[@]}")}")
}

run_bench() {
  say "Random jobs against the CPU engine"
  "$bin/cuda_check" | tee "$log/check.txt" || fail "random jobs"
  say "The ladder"
  "$bin/cuda_ladder" "$log/ladder.jsonl" | tee "$log/ladder.txt" || fail "ladder"
  parts+=("\"bench\": [
$(list_of "$log/ladder.jsonl")
  ]")
}

run_counters() {
  say "Counters"
  python3 bench/cuda/counters.py "$bin/cuda_ladder" "$log/counters.jsonl" | tee "$log/counters.txt" || fail "counters"
  parts+=("\"counters\": [
$(list_of "$log/counters.jsonl")
  ]")
}

# Lines of JSON as a list.
list_of() { sed '$!s/$/,/; s/^/    /' "$1"; }

join() {
  local IFS=,
  local all=$*
  echo "${all//,\"/, \"}"
}

gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader -i 0; }

# <gpu>.txt is what the programs printed, <gpu>.json the same for programs.
write_results() {
  local name commit part text=("$log/notes.txt")
  name=$(gpu name | tr 'A-Z ' 'a-z-')
  commit=${ROTARY_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
  mkdir -p "$results"
  {
    printf '{\n  "gpu": "%s", "driver": "%s",\n' "$(gpu name)" "$(gpu driver_version)"
    printf '  "nvcc": "%s", "commit": "%s"' "$(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')" "$commit"
    for part in "${parts[@]}"; do printf ',\n  %s' "$part"; done
    printf '\n}\n'
  } >"$results/$name.json"
  ((bench == 0)) || text+=("$log/check.txt" "$log/ladder.txt")
  ((counters == 0)) || text+=("$log/counters.txt")
  cat "${text[@]}" >"$results/$name.txt"
  echo "Kept: $results/$name.json and $results/$name.txt"
}

need nvidia-smi "this wants a machine with a GPU"
need nvcc "this wants the CUDA toolkit"
((sanitize == 0)) || need compute-sanitizer "it comes with the CUDA toolkit"
((counters == 0)) || need python3 "it reads what ncu says"
mkdir -p "$log"
: >"$log/notes.txt"
((build == 0)) || build_all
((tests == 0)) || run_tests
((sanitize == 0)) || run_sanitizers
((bench == 0)) || run_bench
((counters == 0)) || run_counters
[[ -z $results ]] || write_results
finish
