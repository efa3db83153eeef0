#!/usr/bin/env bash
# Runs `rotary bench`, prints its tables, and writes the rows to bench/results/<machine>.json, for
# example intel-xeon-processor-2-cores-avx3.json. Use an idle machine for results to be published.
set -euo pipefail
cd "$(dirname "$0")/.."

results=bench/results
mkdir -p "$results" build
echo "rotary bench, less than a minute ..."
build/bin/rotary bench --out build/bench.json
machine=$(sed -n 's/^  "machine": "\(.*\)",$/\1/p' build/bench.json | tr '[:upper:]' '[:lower:]' |
  sed 's/(r)//g; s/(tm)//g; s/[^a-z0-9]\+/-/g; s/^-//; s/-$//')
mv build/bench.json "$results/$machine.json"
printf '\nWritten to %s/%s.json\n' "$results" "$machine"
