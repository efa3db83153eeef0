#!/usr/bin/env bash
# Builds the library and its C++ tests for the other architecture, with g++ and with clang, and runs
# them in QEMU; `make cross` runs it.
#
#   scripts/cross.sh [aarch64|x86_64]     default: the one that this machine is not
#
# With either compiler, on the newest emulated CPU that QEMU knows and on one of the oldest that the
# library supports; in CI, whose time is limited, those of the CPU engine and with g++ some more. On
# AArch64, native tests of the CPU engine run on the newest CPU, too, since few machines have all
# instructions. Libraries of the other architecture are unpacked below build/cross; nothing is
# installed but compilers and QEMU (scripts/bootstrap.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/stages.sh
. scripts/stages.sh

host=$(uname -m)
case ${1:-$host} in
  x86_64 | aarch64) ;;
  *)
    echo "usage: scripts/cross.sh [aarch64|x86_64]; this machine is $host" >&2
    exit 2
    ;;
esac
processor=${1:-$([[ $host == x86_64 ]] && echo aarch64 || echo x86_64)}
# aarch64: max has FEAT_BF16, FEAT_FHM and FEAT_FCMA, cortex-a72 is Armv8.0.
# x86_64: max has AVX2, FMA and F16C (QEMU emulates no AVX-512), Nehalem SSE4.2.
case $processor in
  aarch64) debian=arm64 cpus=(max cortex-a72) ;;
  x86_64) debian=amd64 cpus=(max Nehalem) ;;
esac

# Left out, since QEMU needs some 30 times as long as a machine, most of all for the long double
# of the references. `make test` runs all of it.
programs_left_out=(
  exact_test yarn_test  # sweeps against MPFR and long double
  large_test            # offsets beyond 2^31 bytes
)
slow_tests=(
  # One of seven layouts stays.
  'All/RotateTest.MatchesTheReference/*_rank3'
  'All/RotateTest.MatchesTheReference/*_heads_first'
  'All/RotateTest.MatchesTheReference/*_packed_qkv'
  'All/RotateTest.MatchesTheReference/*_headwise_qkv'
  'All/RotateTest.MatchesTheReference/*_inner_stride'
  'All/RotateTest.MatchesTheReference/*_backwards'
  # Every norm with every store, and the same on threads; random combinations of both stay.
  'AppendTable.EveryNormWithEveryStore'
  'AppendProperties.TheSameBitsOnManyThreads'
  # Minutes of arithmetic in double; the proofs in 256 bits stay.
  'SmallestBase.StoredValues'
)
# Tests of the CPU engine.
engine_tests=(targets_test stored_bits_test identical_test rotate_test write_order_test)
# In CI these stand for all tests: every kernel, readers of files, models, the C API.
ci_tests=("${engine_tests[@]}" append_test c_test io_test model_test rope_test)

# Unpacks the libraries that the tests need into $root, with apt, but without its database and
# without another architecture in the system's.
unpack_libraries() {
  local packages=(libhwy-dev libgtest-dev libgmock-dev libmpfr-dev libgmp-dev nlohmann-json3-dev libfmt-dev)
  [[ $(cat "$root/complete" 2>/dev/null) != "${packages[*]}" ]] || return 0
  echo "reading the package lists of $debian ..."
  rm -rf "$root"
  mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial"
  : >"$root/apt/status"
  local options=(-q -o "APT::Architecture=$debian" -o "APT::Architectures=$debian"
    -o "Dir::State::Lists=$root/apt/lists" -o "Dir::State::status=$root/apt/status"
    -o "Dir::Cache=$root/apt/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root)
  local log=$root/apt/log
  if ! apt-get "${options[@]}" update >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get update for $debian failed: do the sources of apt have that architecture?" >&2
    return 1
  fi
  # The shared libraries behind the first ones.
  local shared
  mapfile -t shared < <(apt-cache "${options[@]}" depends libhwy-dev libmpfr-dev libgmp-dev libfmt-dev |
    sed -n 's/^ *Depends: \(lib\(hwy\|mpfr\|gmp\|fmt\)[0-9][0-9a-z]*\)$/\1/p' | sort -u)
  if ! (cd "$root/apt" && apt-get "${options[@]}" download "${packages[@]}" "${shared[@]}") \
    >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    return 1
  fi
  local file
  for file in "$root"/apt/*.deb; do dpkg -x "$file" "$root"; done
  rm -rf "$root/apt"
  echo "${packages[*]}" >"$root/complete"
}

stage "Compilers, emulator, libraries for $processor"
scripts/bootstrap.sh cross
mkdir -p build/logs
export ROTARY_CROSS_PROCESSOR=$processor
root=$PWD/build/cross/$processor/root
unpack_libraries
echo "ready"

join() {
  local IFS=$1
  shift
  echo "$*"
}
slow_filter=$(join : "${slow_tests[@]}")
export GTEST_FILTER=-$slow_filter
if [[ $processor == x86_64 ]]; then
  # powl uses instructions of the x87, whose last bit QEMU rounds its own way: one of the
  # frequencies, whose exact value is close to the middle of two doubles, is rounded the other way.
  GTEST_FILTER+=:StoredBits.FrequenciesOfGoldenConfigs
fi
# tests_of <compiler> <index of the CPU>: those that run. In CI g++ has more on the newest CPU.
tests_of() {
  [[ -n ${CI:-} ]] || return 0
  [[ $1 == g++ && $2 == 0 ]] && echo "${ci_tests[*]}" || echo "${engine_tests[*]}"
}
# Threads that spin while they wait slow the others down: there are more of them than cores.
export OMP_WAIT_POLICY=passive

# For QEMU: the libraries of C and C++, which come with the compiler, and those unpacked above.
libraries=("QEMU_SET_ENV=LD_LIBRARY_PATH=$root/usr/lib/$processor-linux-gnu")
[[ $processor == "$host" ]] || libraries+=("QEMU_LD_PREFIX=/usr/$processor-linux-gnu")

export "${libraries[@]}"

# run_tests <compiler> <index of the CPU>
run_tests() {
  local tests chosen=(-E "^($(join '|' "${programs_left_out[@]}"))\$")
  read -ra tests <<<"$(tests_of "$1" "$2")"
  ((${#tests[@]} == 0)) || chosen=(-R "^($(join '|' "${tests[@]}"))\$")
  stage "$1, emulated CPU ${cpus[$2]}: ${tests[*]:-all tests}"
  export QEMU_CPU=${cpus[$2]} ROTARY_EXPECT_ARMV86=0
  [[ $processor != aarch64 || $2 != 0 ]] || ROTARY_EXPECT_ARMV86=1
  ctest_preset cross "${chosen[@]}"
  unset QEMU_CPU ROTARY_EXPECT_ARMV86
}

for compiler in g++ clang++; do
  stage "Library and tests for $processor, $compiler"
  export ROTARY_CROSS_COMPILER=$compiler
  read -ra targets <<<"$(tests_of "$compiler" 0)"
  ((${#targets[@]} == 0)) || targets=(rotary "${targets[@]}")
  scripts/build.sh cross "${targets[@]}"
  for index in "${!cpus[@]}"; do run_tests "$compiler" "$index"; done
done

if [[ $host == aarch64 && $processor != aarch64 ]]; then
  stage "The CPU engine, built natively, emulated CPU max"
  unset QEMU_SET_ENV QEMU_LD_PREFIX
  GTEST_FILTER=-$slow_filter
  scripts/build.sh default -DROTARY_BUILD_TESTS=ON "${engine_tests[@]}"
  export ROTARY_EXPECT_ARMV86=1
  emulate() { qemu-aarch64 -cpu max "build/tests/$1" --gtest_brief=1; }
  # rotate_test takes as long as all others.
  emulate rotate_test &
  longest=$!
  for test in "${engine_tests[@]}"; do
    [[ $test == rotate_test ]] || count_check emulate "$test"
  done
  count_check wait "$longest"
fi

summary "the library on $processor"
