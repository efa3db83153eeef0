#!/usr/bin/env bash
# Tests the hooks into other projects (docs/ecosystem.md) with those projects, as PyPI has them.
#
#   scripts/hooks.sh [--quick] [NAME ...]     default: all, each a folder of tests/hooks
#
# Each has a virtual environment of its own, build/hooks/NAME, with the pinned packages of
# tests/hooks/NAME/requirements.txt, those of requirements-no-deps.txt without what they ask for, and the plugin of
# python/plugins/NAME where there is one. The command and the package `rotary` are those of the build folder. Tests
# fail, and are not skipped, where something is missing. The hooks torch_2_* install the wheel of scripts/wheel.sh,
# one for all, with several PyTorch, 4 to 5 GB each where PyPI has them with CUDA alone; with --quick they run the same
# tests with the package and the library of the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=0
if [[ ${1:-} == --quick ]]; then
  quick=1
  shift
fi
hooks=("$@")
if [[ ${#hooks[@]} == 0 ]]; then
  for file in tests/hooks/*/requirements.txt; do
    hooks+=("$(basename "$(dirname "$file")")")
  done
fi

# install NAME ARGUMENT...: with pip, into the environment.
install() {
  local folder=build/hooks/$1
  if ! "$folder/bin/python" -m pip install --disable-pip-version-check "${@:2}" >"$folder/pip.log" 2>&1; then
    echo "pip could not install ${*:2}:" >&2
    tail -n 15 "$folder/pip.log" >&2
    exit 1
  fi
}

# prepare NAME: the environment, unless its stamp has the hash of its requirements.
prepare() {
  local requirements=tests/hooks/$1/requirements.txt folder=build/hooks/$1 hash
  local alone=tests/hooks/$1/requirements-no-deps.txt
  if [[ ! -f $requirements ]]; then
    echo "hooks.sh: there is no hook '$1': no $requirements" >&2
    exit 2
  fi
  hash=$(cat "tests/hooks/$1"/requirements*.txt | sha256sum | cut -d ' ' -f 1)
  if [[ -r $folder/requirements.sha256 && $(<"$folder/requirements.sha256") == "$hash" ]]; then
    return
  fi
  echo "Creating $folder ..."
  rm -rf "$folder"
  # The package in the build folder is compiled for the Python of .venv.
  .venv/bin/python -m venv "$folder"
  install "$1" --only-binary :all: -r "$requirements"
  [[ ! -f $alone ]] || install "$1" --only-binary :all: --no-deps -r "$alone"
  echo "$hash" >"$folder/requirements.sha256"
}

# install_plugin NAME: from a copy, since setuptools writes into the folder that it builds.
install_plugin() {
  local source=python/plugins/$1 copy=build/hooks/$1/plugin
  [[ -d $source ]] || return 0
  rm -rf "$copy"
  cp -r "$source" "$copy"
  install "$1" --no-deps --no-build-isolation --force-reinstall "$copy"
}

# install_wheel NAME: that of make wheel, for the Python of the environments; built once.
wheel=
install_wheel() {
  if [[ -z $wheel ]]; then
    WHEELHOUSE=$PWD/build/hooks/wheelhouse PYTHON=$PWD/.venv/bin/python scripts/wheel.sh
    wheel=$(echo build/hooks/wheelhouse/rotary-*.whl)
  fi
  install "$1" --no-deps --no-index --force-reinstall "$wheel"
}

failed=()
for hook in "${hooks[@]}"; do
  prepare "$hook"
  install_plugin "$hook"
  if [[ -d python/plugins/$hook ]]; then  # plugins call the operators
    scripts/build.sh default -DROTARY_BUILD_TORCH=ON rotary_torch rotary_torch_calls rotary_transformer
  fi
  if [[ $hook == jax ]]; then  # the calls are compiled with the headers of its jaxlib
    include=$(build/hooks/jax/bin/python -c 'import jax; print(jax.ffi.include_dir())')
    scripts/build.sh default "-DROTARY_JAX_INCLUDE=$include" rotary_jax
  fi
  package=$PWD/build/python
  library=$PWD/build/pytorch/librotary_torch.so
  stable=$PWD/build/pytorch/stable/librotary_torch_stable.so
  case $hook in
    kernels) scripts/build.sh default -DROTARY_BUILD_TORCH=ON rotary_torch rotary_transformer rotary_torch_stable ;;
    torch_*)
      if ((quick)); then
        scripts/build.sh default -DROTARY_BUILD_TORCH=ON rotary_torch_stable
        library=$stable
      else  # what is installed, and nothing of the build folder
        install_wheel "$hook"
        package='' library='' stable=''
      fi
      ;;
  esac
  echo "Testing $hook ..."
  ROTARY_HOOK=$hook ROTARY_TORCH_LIBRARY=$library ROTARY_TORCH_STABLE_LIBRARY=$stable \
    ROTARY_TRANSFORMER_LIBRARY=$PWD/build/transformer/librotary_transformer.so \
    ROTARY_COMMAND=$PWD/build/bin/rotary ROTARY_JAX_LIBRARY=$PWD/build/python/librotary_jax.so \
    ROTARY_ONNX_LIBRARY=$PWD/build/python/onnx_op/librotary_onnx.so \
    PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 \
    "build/hooks/$hook/bin/python" -m pytest -q -p no:cacheprovider "tests/hooks/$hook" || failed+=("$hook")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "Failed: ${failed[*]}" >&2
  exit 1
fi
