#!/usr/bin/env bash
# Checks for the dependencies of a make target, and installs missing ones with apt.
#
#   scripts/bootstrap.sh run|build|bench|deb|wheel|test|lint|sanitize|cross|explorer|check
#
# Checks for programs and headers, not for packages, so that those installed by other means are
# found. Fast, and offline, if nothing is missing.
set -euo pipefail
# shellcheck source=scripts/progress.sh
. "$(dirname "$0")/progress.sh"

level=${1:-}
case $level in
  run | build | bench | deb | wheel | test | lint | sanitize | cross | explorer | check) ;;
  *)
    echo "usage: scripts/bootstrap.sh run|build|bench|deb|wheel|test|lint|sanitize|cross|explorer|check" >&2
    exit 2
    ;;
esac

missing=()

have() { command -v "$1" >/dev/null 2>&1; }

compiler=
for name in "${CXX:-}" c++ g++ clang++; do
  if [[ -n $name ]] && have "$name"; then
    compiler=$name
    break
  fi
done

have_header() {
  [[ -n $compiler ]] || return 1
  printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
    "$compiler" -E -x c++ - >/dev/null 2>&1
}

# The fuzzer's runtime is a package of its own, named after clang's version.
can_fuzz() {
  have clang++ && echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null
}

clang_version() {
  local codename=
  # shellcheck source=/dev/null
  [[ ! -r /etc/os-release ]] || codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  case $codename in
    bookworm) echo 14 ;;
    noble) echo 18 ;;
    trixie) echo 19 ;;
    *) apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1 ;;
  esac
}

# Headers of the Python that scripts/venv.sh will use.
have_python_header() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, os, sysconfig
raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null && return
  done
  return 1
}

# need <package> <test ...>: marks the package as missing unless the test succeeds.
need() {
  local package=$1
  shift
  [[ " ${missing[*]-} " == *" $package "* ]] || "$@" || missing+=("$package")
}

need g++ test -n "$compiler"
need cmake have cmake
need ninja-build have ninja
need nlohmann-json3-dev have_header nlohmann/json.hpp
need libhwy-dev have_header hwy/highway.h
need libcli11-dev have_header CLI/CLI.hpp
need libfmt-dev have_header fmt/core.h
need libpng-dev have_header png.h
if [[ $level =~ ^(build|test|lint|sanitize|check)$ ]]; then
  need libutf8proc-dev have_header utf8proc.h
  need libcairo2-dev have_header cairo/cairo.h
  need libjpeg-dev have_header jpeglib.h
  need python3-venv python3 -c 'import ensurepip, venv' 2>/dev/null
fi
if [[ $level == wheel ]]; then
  need python3-venv python3 -c 'import ensurepip, venv' 2>/dev/null
  need python3-dev have_python_header
fi
if [[ $level =~ ^(test|lint|sanitize|check)$ ]]; then
  need libgtest-dev have_header gtest/gtest.h
  need libgmock-dev have_header gmock/gmock.h
  need libmpfr-dev have_header mpfr.h
  need libgmp-dev have_header gmp.h
  need python3-dev have_python_header
fi
if [[ $level == deb || $level == check ]]; then
  need dpkg-dev have dpkg-shlibdeps
  need file have file
fi
if [[ $level == sanitize || $level == check ]]; then
  need clang have clang++
  need "libclang-rt-$(clang_version)-dev" can_fuzz
fi
if [[ $level == cross || $level == check ]]; then  # see scripts/cross.sh
  need clang have clang++
  need qemu-user have qemu-aarch64
  case $(uname -m) in
    x86_64) need g++-aarch64-linux-gnu have aarch64-linux-gnu-g++ ;;
    aarch64) need g++-x86-64-linux-gnu have x86_64-linux-gnu-g++ ;;
  esac
fi
if [[ $level == explorer || ($level == check && -z ${CI:-}) ]]; then  # 800 MB: see scripts/check.sh
  need emscripten have emcc
fi
if [[ $level == explorer || $level == check ]]; then
  need nodejs have node
  [[ -n ${ROTARY_CHROMIUM:-} ]] || need chromium have chromium
fi
if [[ $level == lint || $level == check ]]; then
  need clang-tidy have clang-tidy
  need shellcheck have shellcheck
fi
if [[ $level == check ]]; then
  need pkg-config have pkg-config
  need git have git
fi

if ((${#missing[@]})); then
  if ! have apt-get; then
    echo "Missing on this machine: ${missing[*]} (Debian package names)." >&2
    echo "apt-get was not found; install them and try again." >&2
    exit 1
  fi

  become_root=()
  if ((EUID != 0)); then
    become_root=(sudo)
    # Without a terminal, sudo cannot ask for a password.
    [[ -t 0 ]] || become_root=(sudo -n)
    if ! have sudo || ! { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      echo "Missing on this machine: ${missing[*]}." >&2
      echo "You are not root and sudo is not available; ask an administrator to run" >&2
      echo "  apt-get install ${missing[*]}" >&2
      exit 1
    fi
  fi

  echo "Installing with apt: ${missing[*]}"
  # Asks for a password now, not between lines of progress.
  ((EUID == 0)) || "${become_root[@]}" true
  log=$(mktemp)
  trap 'end_jobs; rm -f "$log"' EXIT
  apt() {
    : >"$log"
    if ! with_progress "$log" "$what" "${become_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -o DPkg::Lock::Timeout=300 "$@"; then
      echo "apt-get $* failed:" >&2
      tail -n 20 "$log" >&2
      return 1
    fi
  }
  what='reading the package lists'
  echo "  $what ..."
  # Not fatal: a third-party source may be unreachable. A missing package fails the install.
  apt update || true
  what='downloading and unpacking'
  echo "  $what ..."
  apt install -y -q --no-install-recommends "${missing[@]}"
  echo "  done in ${SECONDS} s"
fi

version=$(cmake --version | sed -n '1s/[^0-9]*//p')
if [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) != 3.25 ]]; then
  echo "rotary needs CMake 3.25 or newer; $(command -v cmake) is $version." >&2
  echo "Debian 12 and Ubuntu 24.04 have it as the package cmake." >&2
  exit 1
fi
