#!/usr/bin/env bash
# On a machine with a GPU and nvcc: builds the CUDA engine, runs its tests, compute-sanitizer and the
# benchmarks, and writes the results.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END'
usage: scripts/gpu.sh [--tests] [--sanitize] [--bench] [--counters] [--results DIR] [--no-build]
                      [-D<variable>=<value> ...]

  --tests        every case of the table-driven test on the GPU, against the double reference and the CPU
                 engine; every other call, graphs, streams, sizes, errors; the decode-graph example
  --sanitize     most of the tests under compute-sanitizer memcheck and initcheck, and a subset that launches
                 every kernel in every configuration under racecheck
  --bench        random rotations against the CPU engine, then the ladder of kernel versions and the fused
                 kernels against a copy of the same bytes (docs/cuda.md, docs/fused.md)
  --counters     hardware counters of single launches, by ncu
  --results DIR  where <gpu>.json and <gpu>.txt go; bench/results when all parts are run, otherwise nowhere
  --no-build     uses the binaries in build/gpu
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

Without any of the first four: all of them. The exit status is the number of parts that failed.
END
}

tests=0 sanitize=0 bench=0 counters=0
parse_options tests sanitize bench counters -- "$@"
((tests + sanitize + bench + counters)) || tests=1 sanitize=1 bench=1 counters=1
((tests + sanitize + bench + counters < 4)) || results=${results:-bench/results}

bin=build/gpu/bin
log=build/gpu/logs
parts=()  # members of the JSON object

note() { echo "$1" | tee -a "$log/notes.txt"; }

# most: all tests except tensors of gigabytes, deliberate API errors, three of four types of the big table, two types of
# the heads of 100,000 elements, and the large size classes beyond one launch per kernel configuration.
# subset: for racecheck, which is far slower: launches every kernel and, in one type or another, every configuration:
# vectorised and unaligned heads, positions of every kind, tables, gradients, 8-bit output, large heads, large size
# classes, overlapping launches.
most='-*CudaRotate.*/float*:CudaHuge.*:CudaLargeSizes.TokensOfEverySize:CudaRejects.StreamWithFailedCapture'
most+=':CudaC.ReportsDeviceErrors:*CudaLargeHeads.ChangesPairingInPlace/*16'
subset='*CudaCalls.SixteenOperands/*:*CudaCalls.NoAccessOutsideTheView/*'
subset+=':*CudaCalls.PositionsInEveryForm/bfloat16:*CudaCalls.PositionsInEveryForm/float64'
subset+=':*CudaTable.NanOutsideTheTable/*:*CudaFloat8.MixedOperandsAndTables/*:*CudaFloat8.RoundsToNearestEven/*'
subset+=':CudaGraph.OverlappingChains:CudaGraph.StreamsAndThreads:CudaGradient.ComputesOnlyRequestedGradients'
subset+=':CudaLarge.TablesOfManyPairs:*CudaLargeHeads.ManyPairs/float16:*CudaTable.CosSin/float32'
subset+=':CudaNorm.EveryPlacementAndTypeOfWeights:CudaNorm.EverySourceOfAnglesAndPositions:CudaNorm.Gradients*'
subset+=':CudaNorm.TheOrderOfAWarp:CudaNorm.ThreeTensors:CudaNorm.WarpsWithoutHeads'
subset+=':CudaAppend.NormalisesFirst:CudaAppend.DecodesManySequences:CudaAppend.WholeHeads*'
subset+=':*CudaLargeHeads.ChangesPairingInPlace/float64:*CudaSizeClasses.ManyShortTokens/bfloat16'
subset+=':CudaLargeSizes.EveryConfigOnce:*CudaLargeGradient.Vectorized/*'

build_all() {
  local targets=()
  ((tests)) && targets+=(rotary_example_decode_graph)
  ((tests + sanitize)) && targets+=(cuda_tests)
  ((bench)) && targets+=(cuda_check cuda_fused)
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
  note "decoding step of 32 layers and 16 sequences, until the host has synchronised: calls $calls us, a graph $replays us"
  parts+=("\"decode_step\": {\"calls_us\": $calls, \"graph_us\": $replays}")
}

# Proves that the tool works: it must report the planted error.
finds_planted() {
  ! compute-sanitizer --tool "$1" --error-exitcode 9 "$bin/cuda_tests" --gtest_also_run_disabled_tests \
    "--gtest_filter=CudaPlanted.*$2" >"$log/planted-$1.txt" 2>&1 && grep -q 'SUMMARY: [1-9]' "$log/planted-$1.txt"
}

run_sanitizers() {
  local tool filter status start list=()
  finds_planted memcheck OutOfBounds || fail "memcheck does not find a planted access out of bounds"
  finds_planted initcheck Uninitialised || fail "initcheck does not find a planted uninitialised read"
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
  say "Random rotations against the CPU engine"
  "$bin/cuda_check" | tee "$log/check.txt" || fail "random rotations"
  say "The ladder"
  "$bin/cuda_ladder" "$log/ladder.jsonl" | tee "$log/ladder.txt" || fail "ladder"
  say "The fused kernels"
  "$bin/cuda_fused" | tee "$log/fused.txt" || fail "fused kernels"
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

# JSON lines as list elements.
list_of() { sed '$!s/$/,/; s/^/    /' "$1"; }

join() {
  local IFS=,
  local all=$*
  echo "${all//,\"/, \"}"
}

gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader -i 0; }

# <gpu>.txt is the programs' output, <gpu>.json the same figures in JSON.
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
  ((bench == 0)) || text+=("$log/check.txt" "$log/ladder.txt" "$log/fused.txt")
  ((counters == 0)) || text+=("$log/counters.txt")
  cat "${text[@]}" >"$results/$name.txt"
  echo "Kept: $results/$name.json and $results/$name.txt"
}

need nvidia-smi "a machine with a GPU is required"
need nvcc "the CUDA toolkit is required"
((sanitize == 0)) || need compute-sanitizer "it comes with the CUDA toolkit"
((counters == 0)) || need python3 "it parses the output of ncu"
mkdir -p "$log"
: >"$log/notes.txt"
((build == 0)) || build_all
((tests == 0)) || run_tests
((sanitize == 0)) || run_sanitizers
((bench == 0)) || run_bench
((counters == 0)) || run_counters
[[ -z $results ]] || write_results
finish
