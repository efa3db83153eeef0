#!/usr/bin/env bash
# Measures, prints, and keeps the figures under bench/results by the name of the machine:
#   <machine>.json         Google Benchmark's: float32 and bfloat16, repetitions that take turns
#   <machine>.table.json   those of `rotary bench`
# For figures worth keeping: an idle machine, nothing else running.
set -euo pipefail
cd "$(dirname "$0")/.."

results=bench/results
mkdir -p "$results" build/logs
machine=$(build/bin/bench_rotate --slug)

echo "Google Benchmark, one to two minutes; these are the medians ..."
build/bin/bench_rotate --benchmark_filter='/(fp32|bf16)/' --benchmark_min_time=0.02 \
  --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true \
  --benchmark_report_aggregates_only=true --benchmark_color=false \
  --benchmark_out="$results/$machine.json" --benchmark_out_format=json 2>build/logs/bench.log |
  sed -n 's/_median//p' | sort -V

printf '\nrotary bench, less than a minute ...\n'
build/bin/rotary bench --out "$results/$machine.table.json"
printf '\nKept in %s: %s.json and %s.table.json\n' "$results" "$machine" "$machine"
