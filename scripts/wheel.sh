#!/usr/bin/env bash
# Builds the Python package as a manylinux wheel, which runs on other distributions of the same age
# or newer; `make wheel` runs it.
#
#   scripts/wheel.sh [-D<variable>=<value> ...]
#
# Built in build/wheel with the pinned versions of pyproject.toml and wheel-requirements.txt, for
# $PYTHON (python3); from Python 3.12 on one wheel is for all later versions. auditwheel copies the
# libraries into it that manylinux does not promise (OpenMP, Highway) and names the oldest glibc.
#
# Without the CUDA engine (-DROTARY_CUDA=ON adds it). Of PyTorch's operators it has those for the stable
# ABI, which run in every PyTorch from 2.11 on: built with the headers of the PyTorch of $PYTHON or of
# .venv (scripts/venv.sh), whose libraries are not copied. -DROTARY_BUILD_TORCH=OFF leaves them out.
set -euo pipefail
cd "$(dirname "$0")/.."

wheelhouse=${WHEELHOUSE:-$PWD/build/wheelhouse}
work=$PWD/build/wheel
log=$work/log.txt
torch=STABLE
settings=(-Ccmake.define.ROTARY_CUDA=OFF)
for definition in "$@"; do
  case $definition in
    -DROTARY_BUILD_TORCH=OFF | -DROTARY_BUILD_TORCH=STABLE) torch=${definition#*=} ;;
    -DROTARY_BUILD_TORCH=*)
      echo 'This wheel is not for one PyTorch; pip install ".[torch]" builds all operators for it.' >&2
      exit 2
      ;;
    -D*=*) settings+=("-Ccmake.define.${definition#-D}") ;;
    *)
      echo "usage: scripts/wheel.sh [-D<variable>=<value> ...]" >&2
      exit 2
      ;;
  esac
done

# The PyTorch whose headers the operators are compiled with; CMake looks at its version.
settings+=("-Ccmake.define.ROTARY_BUILD_TORCH=$torch")
if [[ $torch == STABLE ]]; then
  headers=
  for candidate in "${PYTHON:-python3}" .venv/bin/python; do
    if "$candidate" -c 'import importlib.util; raise SystemExit(not importlib.util.find_spec("torch"))' 2>/dev/null; then
      headers=$("$candidate" -c 'import sys; print(sys.executable)')
      break
    fi
  done
  if [[ -z $headers ]]; then
    echo "The wheel needs the headers of PyTorch 2.11 or newer: run scripts/venv.sh, or set PYTHON to" \
      "a Python that has it. -DROTARY_BUILD_TORCH=OFF builds a wheel without rotary.torch's operators." >&2
    exit 1
  fi
  settings+=("-Ccmake.define.ROTARY_PYTHON=$headers")
fi

# One folder for each set of options: CMake cannot change the compiler of an existing one.
folder=$work/cmake-$(echo "${settings[@]}" "${CXX:-}" | sha256sum | cut -c 1-8)

fail() {
  echo "$1 failed; from $log:" >&2
  tail -n 40 "$log" >&2
  exit 1
}

# The environment of the build: a new one whenever a pinned version or the Python has changed.
mkdir -p "$work"
python=
for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
  if "$candidate" -c 'import ensurepip, tomllib, venv' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [[ -z $python ]]; then
  echo "The wheel needs Python 3.11 or newer with venv (Debian and Ubuntu: python3-venv)." >&2
  exit 1
fi
requirements=$("$python" -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")')
stamp=$({ "$python" -c 'import sys; print(sys.version, sys.base_prefix)' && echo "$requirements" &&
  cat scripts/wheel-requirements.txt; } | sha256sum | cut -d ' ' -f 1)
if [[ ! -r $work/env/stamp || $(<"$work/env/stamp") != "$stamp" ]]; then
  echo "Creating build/wheel/env ..."
  rm -rf "$work/env"
  "$python" -m venv "$work/env"
  echo "$requirements" >"$work/requirements.txt"
  "$work/env/bin/python" -m pip install --disable-pip-version-check --only-binary :all: \
    -r "$work/requirements.txt" -r scripts/wheel-requirements.txt >"$log" 2>&1 ||
    fail "Installing the build requirements"
  echo "$stamp" >"$work/env/stamp"
fi

echo "Building the wheel ..."
rm -rf "$work/built" "$work/repaired"
"$work/env/bin/python" -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps \
  --no-index -w "$work/built" "-Cbuild-dir=$folder" "${settings[@]}" -v . >"$log" 2>&1 ||
  fail "Building the wheel"
PATH=$work/env/bin:$PATH "$work/env/bin/auditwheel" repair --only-plat --exclude 'libtorch*' -w "$work/repaired" \
  "$work"/built/rotary-*.whl >>"$log" 2>&1 || fail "auditwheel"

wheel=$(echo "$work"/repaired/rotary-*.whl)
"$work/env/bin/auditwheel" show "$wheel" >"$work/show.txt" 2>>"$log" || fail "auditwheel"
name=$(basename "$wheel" .whl)
tag=${name#rotary-*-}
if ! grep -qF "${tag##*-}" "$work/show.txt"; then
  echo "auditwheel does not find the tag $tag consistent with the content:" >&2
  cat "$work/show.txt" >&2
  exit 1
fi
mkdir -p "$wheelhouse"
rm -f "$wheelhouse"/rotary-*.whl
mv "$wheel" "$wheelhouse/"
wheel=$wheelhouse/$(basename "$wheel")
echo "tag   $tag"
echo "size  $(du -k --apparent-size "$wheel" | cut -f 1) KiB"
echo "path  ${wheel#"$PWD"/}"
