#!/usr/bin/env bash
# On a machine with a GPU, nvcc, PyTorch for CUDA and transformers: builds `roformer`, trains RoFormer-base with it
# and with transformers, and writes the results.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END_USAGE'
usage: scripts/gpu_roformer_speed.sh [--results DIR] [--no-build] [--eager] [-D<variable>=<value> ...]

  --results DIR  where <gpu>-roformer.json and .txt go (bench/results); bench/roformer/beside_transformers.py
                 --again FILE.json plots the losses with matplotlib
  --no-build     uses the binaries in build/gpu-roformer
  --eager        also measures transformers without torch.compile
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

$PYTHON is the Python that has PyTorch and transformers (python3).
END_USAGE
}

eager=0
parse_options eager -- "$@"

need nvidia-smi "a machine with a GPU is required"
python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-roformer
if ((build)); then
  say "Build"
  build_targets "$folder" "$folder/logs" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON -DROTARY_PYTHON="$python" \
    -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF \
    -DROTARY_INSTALL=OFF -- roformer_cli
fi
arguments=()
[[ -z $results ]] || arguments+=(--results "$results")
((eager == 0)) || arguments+=(--eager)
"$python" bench/roformer/beside_transformers.py "$folder/bin/roformer" "${arguments[@]}"
