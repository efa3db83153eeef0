#!/usr/bin/env bash
# On a machine with a GPU, nvcc, and JAX and PyTorch for CUDA: builds and tests what of the hooks (docs/ecosystem.md)
# runs on CUDA, and measures it. Nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END'
usage: scripts/gpu_hooks.sh [--jax] [--stable] [--gradients] [--kernels] [--bench] [--site DIR] [--results DIR]
                            [--no-build] [-D<variable>=<value> ...]

  --jax          tests/hooks/jax on the GPU
  --stable       tests/hooks/cuda/test_stable_abi.py: the library for PyTorch's stable ABI on CUDA tensors
  --gradients    tests/hooks/cuda/forward_only.py: a model whose rotation has no backward, what rotary.torch.check says
                 of it, and how wrong its gradients are
  --kernels      tests/hooks/kernels/test_models.py: models of transformers by the exported kernel. It needs the
                 package `kernels`, in a version that transformers accepts
  --bench        bench/jax/bench_rotation.py and bench/torch/bench_stable_abi.py --device cuda
  --site DIR     a folder with more packages, before those of Python. For --kernels with transformers 5.17:
                 pip install --target DIR --no-deps --only-binary :all: --platform manylinux2014_x86_64
                 --python-version 3.12 kernels==0.16.2 kernels-data tomlkit
  --results DIR  where <gpu>-hooks.txt, all that is printed by these, goes; otherwise nowhere
  --no-build     uses the binaries in build/gpu-torch, the build folder of scripts/gpu_torch.sh
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

Without any of the first five: all. $PYTHON is the Python that has JAX and PyTorch (python3). The exit status is the
number of parts that failed. A part whose package is missing is named as not run, and counts as failed: name the
parts that are to run.
END
}

# --site DIR is of this script alone.
site='' arguments=()
while (($#)); do
  case $1 in
    --site)
      site=${2:?--site needs a folder}
      shift
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
jax=0 stable=0 gradients=0 kernels=0 bench=0
parse_options jax stable gradients kernels bench -- "${arguments[@]}"
((jax + stable + gradients + kernels + bench)) || jax=1 stable=1 gradients=1 kernels=1 bench=1

python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-torch
log=$folder/logs
native=$folder/pytorch/librotary_torch.so
stable_library=$folder/pytorch/stable/librotary_torch_stable.so
not_run=()

# skip <part> <why>
skip() {
  echo "NOT RUN: $1: $2"
  not_run+=("$1")
  fail "$1"
}
# has <module>: whether Python can import it; its version, or why not, is in $found.
has() {
  found=$("$python" -c "import $1; print(getattr($1, '__version__', ''))" 2>&1 | tail -n 1)
  "$python" -c "import $1" >/dev/null 2>&1
}

# The options are those of gpu_torch.sh, so that both build each file once.
build_all() {
  local targets=(rotary_python) include=()
  if ((jax || bench)) && has jax; then
    targets+=(rotary_jax)
    include=("-DROTARY_JAX_INCLUDE=$("$python" -c 'import jax; print(jax.ffi.include_dir())')")
  fi
  ((stable + bench == 0)) || targets+=(rotary_torch_stable)
  ((gradients + kernels + bench == 0)) || targets+=(rotary_torch rotary_transformer rotary_torch_calls)
  say "Build"
  build_targets "$folder" "$log" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_PYTHON=ON -DROTARY_PYTHON="$python" \
    -DPython_EXECUTABLE="$python" -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_ROFORMER=OFF \
    -DROTARY_BUILD_TOOLS=OFF -DROTARY_BUILD_BENCHMARKS=OFF -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF \
    -DROTARY_INSTALL=OFF -DROTARY_UNITY_BUILD=ON "${include[@]}" -- "${targets[@]}"
}

# run_pytest <part> <library> <argument> ...: with rotary.torch on that library; prints the summary, and what failed.
run_pytest() {
  local part=$1 library=$2 out=$log/hooks-$1.txt
  shift 2
  if ROTARY_TORCH_LIBRARY=$library "$python" -m pytest -q -p no:cacheprovider "$@" >"$out" 2>&1; then
    tail -n 1 "$out"
  else
    grep -E '^(FAILED|ERROR|E  )' "$out" | head -n 40 || true
    tail -n 3 "$out"
    fail "$part"
  fi
}

run_jax() {
  say "tests/hooks/jax"
  has jax || {
    skip jax "$found"
    return
  }
  XLA_PYTHON_CLIENT_PREALLOCATE=false run_pytest jax "$native" tests/hooks/jax/test_rotate.py \
    tests/hooks/jax/test_default_types.py tests/hooks/jax/test_page.py::test_section
}

run_stable() {
  say "tests/hooks/cuda/test_stable_abi.py"
  local version
  version=$("$python" -c 'import torch; print("_".join(torch.__version__.split(".")[:2]))')
  ROTARY_HOOK=torch_$version run_pytest stable "$stable_library" tests/hooks/cuda/test_stable_abi.py
}

run_gradients() {
  say "tests/hooks/cuda/forward_only.py"
  "$python" tests/hooks/cuda/forward_only.py 2>"$log/hooks-forward_only.err" || {
    tail -n 20 "$log/hooks-forward_only.err"
    fail "forward_only.py"
  }
  run_pytest gradients "$native" tests/hooks/cuda/test_forward_only.py
}

run_kernels() {
  say "tests/hooks/kernels/test_models.py"
  has kernels || {
    skip kernels "$found"
    return
  }
  "$python" -c '
import transformers.utils.import_utils as utils
raise SystemExit(not utils.is_kernels_available())' || {
    skip kernels "transformers does not accept kernels $found"
    return
  }
  echo "kernels $found"
  run_pytest kernels "$native" tests/hooks/kernels/test_models.py
}

run_bench() {
  say "bench/torch/bench_stable_abi.py"
  "$python" bench/torch/bench_stable_abi.py "$stable_library" --device cuda 2>"$log/hooks-stable.err" || {
    tail -n 20 "$log/hooks-stable.err"
    fail "bench_stable_abi.py"
  }
  say "bench/jax/bench_rotation.py"
  has jax || {
    skip bench_rotation.py "$found"
    return
  }
  "$python" bench/jax/bench_rotation.py 2>"$log/hooks-jax.err" || {
    tail -n 20 "$log/hooks-jax.err"
    fail "bench_rotation.py"
  }
}

need nvidia-smi "a machine with a GPU is required"
mkdir -p "$log"
((build == 0)) || build_all
export ROTARY_TORCH_LIBRARY=$native ROTARY_TRANSFORMER_LIBRARY=$folder/transformer/librotary_transformer.so
export ROTARY_TORCH_STABLE_LIBRARY=$stable_library ROTARY_JAX_LIBRARY=$folder/python/librotary_jax.so
export ROTARY_HOOK_DEVICE=cuda PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1
export PYTHONPATH=$folder/python${site:+:$site}${PYTHONPATH:+:$PYTHONPATH}
if [[ -n $results ]]; then
  mkdir -p "$results"
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')
  exec > >(tee "$results/$gpu-hooks.txt") 2>&1
fi
((jax == 0)) || run_jax
((stable == 0)) || run_stable
((gradients == 0)) || run_gradients
((kernels == 0)) || run_kernels
((bench == 0)) || run_bench
((${#not_run[@]} == 0)) || printf '\nNot run: %s\n' "${not_run[*]}"
finish
