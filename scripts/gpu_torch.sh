#!/usr/bin/env bash
# On a machine with a GPU, nvcc and PyTorch for CUDA: builds the Python package and the PyTorch operators,
# runs their tests on CPU and CUDA, measures them, and writes the results.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END'
usage: scripts/gpu_torch.sh [--tests] [--sanitize] [--bench] [--results DIR] [--no-build] [-D<variable>=<value> ...]

  --tests        tests/torch: every test on the CPU and on CUDA, and the tests for CUDA only; then
                 tests/python/check_cuda.py: PyTorch and CuPy arrays on the device
  --sanitize     tests of the Hopper, layer, fused, optimizer and linear-attention kernels under compute-sanitizer
                 memcheck, initcheck and racecheck, each of which must first report a planted error
  --bench        bench/torch/bench_rotation.py: a layer against transformers and torch.compile, kernels against a copy,
                 host time per call, a model before and after rotary.torch.patch
  --results DIR  where <gpu>-pytorch.json and <gpu>-pytorch.txt go; bench/results when both parts are run,
                 otherwise nowhere
  --no-build     uses the binaries in build/gpu-torch
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

Without any of the first three: tests and bench. $PYTHON is the Python that has PyTorch (python3), $COMPUTE_SANITIZER
another compute-sanitizer than that of the toolkit. The exit status is the number of parts that failed.
END
}

tests=0 sanitize=0 bench=0
parse_options tests sanitize bench -- "$@"
((tests + sanitize + bench)) || tests=1 bench=1
((tests + bench < 2)) || results=${results:-bench/results}

python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-torch
log=$folder/logs
shards=${SHARDS:-8}
# Every kernel of transformer/, on small shapes.
sanitized_tests=(tests/torch/test_fused_attention.py tests/torch/test_feed_forward.py tests/torch/test_layers.py
  tests/torch/test_norm.py tests/torch/test_cache.py
  tests/torch/test_linear_scans.py tests/torch/test_linear_attention.py tests/torch/cuda/test_linear_kernels.py)
# For the slow tools: every kernel in one type, on one or two shapes.
every_kernel_once='cuda and ((test_results_and_gradients and 333 and not 0.5) or (test_saved_masks and 130)
  or (test_heads_of_any_size and bfloat16 and 80) or (test_norm_comes_first and rms-)
  or (test_single_gradient and inner) or test_one_row or (test_add_norm and 768) or test_bias_gelu or test_row_sums
  or test_cross_entropy_computes or (test_product and bfloat16 and causal) or (test_dot_and_sum and bfloat16)
  or (test_favor and bfloat16 and not variant) or test_elu or test_reciprocals
  or test_layouts or test_one_weight or test_in_place_under_autograd or test_norm_comes_first or test_pages
  or (test_mla and same))'
every_kernel_once=${every_kernel_once//$'\n'/}
optimizer_tests='GatherSegments.*:AddRows.*:SegmentNorms.*:ClipAndCheck.*:AdamWStep.*:SplitHeads.*'

build_all() {
  local targets=(rotary_torch rotary_transformer rotary_torch_calls rotary_python) roformer=OFF
  if ((sanitize)); then  # its tests run the optimizer's kernels
    targets+=(roformer_model_test)
    roformer=ON
  fi
  say "Build"
  build_targets "$folder" "$log" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_PYTHON=ON -DROTARY_PYTHON="$python" \
    -DPython_EXECUTABLE="$python" -DROTARY_BUILD_TESTS=$roformer -DROTARY_BUILD_ROFORMER=$roformer \
    -DROTARY_BUILD_TOOLS=OFF -DROTARY_BUILD_BENCHMARKS=OFF -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF \
    -DROTARY_INSTALL=OFF -DROTARY_UNITY_BUILD=ON -- "${targets[@]}"
}

# In several processes: most of the time is spent in PyTorch's compiler.
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

# sanitized <tool> <log> <command> ...: every allocation is a separate cudaMalloc. memcheck and racecheck instrument our
# kernels only; initcheck must see the writes of PyTorch's kernels, too.
sanitized() {
  local tool=$1 out=$2 options=(--kernel-name kernel_substring=rotary)
  shift 2
  [[ $tool != initcheck ]] || options=(--check-api-memory-access no)
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 "${COMPUTE_SANITIZER:-compute-sanitizer}" --tool "$tool" --print-limit 200000 --show-backtrace no \
    "${options[@]}" "$@" >"$out" 2>&1
}

# reports <log> ...: how many reports name one of our kernels. Those of PyTorch's and cuBLAS's kernels do not count
# (initcheck does not see what is stored by TMA), nor those of racecheck that are explained at SharedStorage in
# transformer/attention/hopper/backward_queries.cu.
reports() {
  grep -hE '^\.*=+ +(at |Error: Race|Warning: Race).*rotary::' "$@" |
    grep -cvE 'Race reported between Read access at .*attention_backward_queries<\(bool\)1, \(bool\)1>' || true
}

# Each tool must first report a planted error, which proves that it checks these kernels. A process for each file, all at
# once: one test after another takes minutes. pytest ends with 5 where a file has none of the selected tests.
run_sanitizers() {
  local tool start status found file pid planted=$log/libplanted.so selected logs pids
  nvcc -std=c++20 -arch=native -shared -Xcompiler -fPIC -o "$planted" tests/torch/cuda/planted.cu
  for tool in ${TOOLS:-racecheck initcheck memcheck}; do
    say "compute-sanitizer $tool"
    sanitized "$tool" "$log/planted-$tool.txt" "$python" tests/torch/cuda/plant.py "$planted" "$tool" || true
    (($(reports "$log/planted-$tool.txt"))) || fail "$tool does not report the planted error"
    start=$SECONDS
    status=passed
    selected='cuda and not compile'
    [[ $tool == memcheck ]] || selected=$every_kernel_once
    # racecheck of CUDA 13.0 ends with an internal error ("failed to handle a hardware exception") on these kernels; a
    # newer one, which $COMPUTE_SANITIZER may name, does not (bench/results/nvidia-h200-sanitizers.txt).
    [[ $tool != racecheck || -n ${COMPUTE_SANITIZER:-} ]] || selected+=' and not feed_forward and not test_product'
    logs=("$log/$tool-optimizer.txt") pids=()
    for file in "${sanitized_tests[@]}"; do
      logs+=("$log/$tool-$(basename "$file" .py).txt")
      { sanitized "$tool" "${logs[-1]}" "$python" -m pytest -q -p no:cacheprovider -k "$selected" "$file" ||
        (($? == 5)); } &
      pids+=("$!")
    done
    sanitized "$tool" "${logs[0]}" "$folder/tests/roformer/roformer_model_test" --gtest_brief=1 \
      "--gtest_filter=$optimizer_tests" || status=failed
    for pid in "${pids[@]}"; do wait "$pid" || status=failed; done
    grep -E ' passed| failed|PASSED|FAILED|SUMMARY' "${logs[@]}" | sed "s|^$log/||" || true
    found=$(reports "${logs[@]}")
    if [[ $status == failed ]] || ((found)); then
      grep -hE '^=+ .*rotary' "${logs[@]}" | sort | uniq -c | sort -rn | head -n 40
      fail "$tool: $found reports"
    fi
    echo "$tool: $status in $((SECONDS - start)) s"
  done
}

run_bench() {
  say "bench/torch/bench_rotation.py"
  "$python" bench/torch/bench_rotation.py --save "$log/bench.jsonl" 2>"$log/bench.err" | tee "$log/bench.txt" || {
    tail -n 20 "$log/bench.err"
    fail "bench_rotation.py"
  }
}

# <gpu>-pytorch.txt is the printed output, <gpu>-pytorch.json the same figures in JSON.
write_results() {
  mkdir -p "$results"
  ROTARY_COMMIT=${ROTARY_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)} \
    "$python" scripts/gpu_torch_results.py "$log" "$results"
}

need nvidia-smi "a machine with a GPU is required"
mkdir -p "$log"
((build == 0)) || build_all
export ROTARY_TORCH_LIBRARY=$folder/pytorch/librotary_torch.so
export ROTARY_TRANSFORMER_LIBRARY=$folder/transformer/librotary_transformer.so
export PYTHONPATH=$folder/python${PYTHONPATH:+:$PYTHONPATH}
((tests == 0)) || run_tests
((sanitize == 0)) || run_sanitizers
((bench == 0)) || run_bench
[[ -z $results ]] || write_results
finish
