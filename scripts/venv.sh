#!/usr/bin/env bash
# Creates .venv with the packages of requirements-test.txt, unless the stamp has the hash of that file.
#
#   scripts/venv.sh [--is-complete]     --is-complete: does nothing; the exit status tells whether that is so
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/progress.sh
. scripts/progress.sh

stamp=.venv/requirements.sha256
hash=$(sha256sum requirements-test.txt | cut -d ' ' -f 1)
# complete: .venv has the packages. One that another Python made has them where this Python does not look.
complete() {
  [[ -x .venv/bin/python && -r $stamp && $(<"$stamp") == "$hash" ]] && .venv/bin/python -c '
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in ("nanobind", "pytest", "torch")))' 2>/dev/null
}
if complete; then
  exit 0
elif [[ ${1:-} == --is-complete ]]; then
  exit 1
fi

# An existing environment is updated; all versions are pinned.
if .venv/bin/python -c '
import sys, pip
sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)' 2>/dev/null; then
  echo "Updating the Python packages of .venv ..."
else
  # The first python3 that can create a virtual environment: on Debian the one on the PATH may lack
  # ensurepip, while the system's has it from python3-venv.
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      found=$python
      break
    fi
  done
  if [[ -z ${found:-} ]]; then
    echo "The tests need Python 3.11 or newer with venv (Debian and Ubuntu: python3-venv)." >&2
    exit 1
  fi
  echo "Creating .venv with the Python packages of the tests ..."
  rm -rf .venv
  "$found" -m venv .venv
fi
log=.venv/pip.log
# --no-compile: to compile all packages takes half the time, and the tests import a third of their files, whose
# bytecode the first test keeps in the build folder.
install=(.venv/bin/python -m pip install --disable-pip-version-check --only-binary :all: --no-compile)
# pip first: that of a new environment is as old as its Python, and 23.2 takes 1.6 times as long.
: >"$log"
pip() { with_progress "$log" "downloading and unpacking" "${install[@]}" "$@"; }
if ! { pip "$(grep '^pip==' requirements-test.txt)" && pip -r requirements-test.txt; }; then
  echo "pip could not install requirements-test.txt:" >&2
  tail -n 15 "$log" >&2
  exit 1
fi
echo "$hash" >"$stamp"
echo "  done in ${SECONDS} s"
