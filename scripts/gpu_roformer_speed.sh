#!/usr/bin/env bash
# On a machine with a GPU, nvcc, PyTorch for CUDA and transformers: builds `roformer`, trains RoFormer-base with it
# and with transformers, and keeps the figures.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END_USAGE'
usage: scripts/gpu_roformer_speed.sh [--results DIR] [--no-build] [--eager] [-D<variable>=<value> ...]

  --results DIR  where <gpu>-roformer.json and .txt go (bench/results); the losses are drawn by
                 bench/roformer/beside_transformers.py --again FILE.json, which wants matplotlib
  --no-build     takes what build/gpu-roformer holds
  --eager        measures transformers without torch.compile, too
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

$PYTHON is the Python that has PyTorch and transformers (python3).
END_USAGE
}

build=1 arguments=() definitions=()
while (($#)); do
  case $1 in
    --no-build) build=0 ;;
    --eager) arguments+=(--eager) ;;
    --results)
      arguments+=(--results "${2:?--results needs a folder}")
      shift
      ;;
    -D*) definitions+=("$1") ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done

command -v nvidia-smi >/dev/null || { echo "gpu_roformer_speed.sh: this wants a machine with a GPU" >&2 && exit 2; }
python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-roformer
if ((build)); then
  cmake --preset default -B "$folder" -DROTARY_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native -DROTARY_BUILD_TORCH=ON \
    -DROTARY_BUILD_ROFORMER=ON -DROTARY_PYTHON="$python" -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
    -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF -DROTARY_INSTALL=OFF "${definitions[@]}"
  cmake --build "$folder" --parallel "${JOBS:-$(nproc)}" --target roformer_cli
fi
"$python" bench/roformer/beside_transformers.py "$folder/bin/roformer" "${arguments[@]}"
