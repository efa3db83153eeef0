#!/usr/bin/env bash
# On a machine with a GPU, nvcc and PyTorch for CUDA: builds the Python package and the PyTorch operators,
# runs their tests on CPU and CUDA, measures them, and keeps the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END'
usage: scripts/gpu_torch.sh [--tests] [--bench] [--results DIR] [--no-build] [-D<variable>=<value> ...]

  --tests        tests/torch, every test on the CPU and on CUDA, and those that only CUDA has; then
                 tests/python/check_cuda.py: arrays of PyTorch and CuPy on the device
  --bench        python -m rotary.bench: a layer beside transformers and torch.compile, kernels beside a copy,
                 the host's part of a call, a model before and after rotary.torch.patch
  --results DIR  where <gpu>-pytorch.json and <gpu>-pytorch.txt go; bench/results when both parts are run,
                 otherwise nowhere
  --no-build     takes what build/gpu-torch holds
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

Neither of the two named: both. $PYTHON is the Python that has PyTorch (python3). Ends with the number of parts
that failed; 0 is good.
END
}

tests=0 bench=0
parse_options tests bench -- "$@"
((tests + bench)) || tests=1 bench=1
((tests + bench < 2)) || results=${results:-bench/results}

python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-torch
log=$folder/logs
shards=${SHARDS:-8}

build_all() {
  say "Build"
  build_targets "$folder" "$log" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_PYTHON=ON -DROTARY_PYTHON="$python" \
    -DPython_EXECUTABLE="$python" -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_TOOLS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
    -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF -DROTARY_INSTALL=OFF \
    -- rotary_torch rotary_torch_calls rotary_python
}

# In several processes: most of the time goes into PyTorch's compiler.
run_tests() {
  say "Tests"
  local pids=() pid i part status=0
  rm -f "$log"/tests.*
  for ((i = 0; i < shards; ++i)); do
    part=$log/tests.part$i
    OMP_NUM_THREADS=2 "$python" -m pytest -q -p no:cacheprovider tests/torch --shard "$i/$shards" \
      --junit-xml="$part.xml" >"$part.txt" 2>&1 &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  grep -hE '^[0-9]+ (passed|failed)' "$log"/tests.part*.txt
  if ((status)); then
    grep -hE '^(FAILED|ERROR|E  )' "$log"/tests.part*.txt | head -n 60
    fail "tests/torch"
  fi
  say "tests/python/check_cuda.py"
  "$python" tests/python/check_cuda.py 2>&1 | tee "$log/check_cuda.txt" || fail "check_cuda.py"
}

run_bench() {
  say "python -m rotary.bench"
  "$python" -m rotary.bench --save "$log/bench.jsonl" 2>"$log/bench.err" | tee "$log/bench.txt" || {
    tail -n 20 "$log/bench.err"
    fail "rotary.bench"
  }
}

# <gpu>-pytorch.txt is what was printed, <gpu>-pytorch.json the same for programs.
write_results() {
  mkdir -p "$results"
  ROTARY_COMMIT=${ROTARY_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)} \
    "$python" scripts/gpu_torch_results.py "$log" "$results"
}

need nvidia-smi "this wants a machine with a GPU"
mkdir -p "$log"
((build == 0)) || build_all
export ROTARY_TORCH_LIBRARY=$folder/torch_ops/librotary_torch.so
export PYTHONPATH=$folder/python${PYTHONPATH:+:$PYTHONPATH}
((tests == 0)) || run_tests
((bench == 0)) || run_bench
[[ -z $results ]] || write_results
finish
