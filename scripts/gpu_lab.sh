#!/usr/bin/env bash
# On a machine with a GPU, nvcc and PyTorch for CUDA: builds `roformer`, and runs every lab at its full setting. What an
# earlier run left in the results is continued.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END_USAGE'
usage: scripts/gpu_lab.sh --data DIR [--labs NAME,...] [--variants NAME,... [--rerun]] [--limit SECONDS]
                          [--at-once N] [--results DIR] [--no-build] [--quick] [--tests] [--no-graphs]
                          [-D<variable>=<value> ...]

  --data DIR       the folder with enwiki2014_100MB.txt, or that file with .xz, and the data of the other labs; archives in it are unpacked
  --labs NAME,...  only these; default: all that `roformer lab --help` lists
  --variants NAME,...  of the one lab in --labs, only these; '*/*' are RoPER's tasks of the lab tasks
  --rerun          drops the rows of these variants first; without it, a later call continues
  --limit SECONDS  interrupts labs so long after the build; their units write checkpoints, and the next call continues
  --at-once N      labs that run side by side on the GPU (3); `length`, which measures speed, first runs alone
  --tests          first builds and runs the tests that training steps as CUDA graphs give the numbers of single launches
  --no-graphs      as `roformer lab --no-graphs`
  --results DIR    where each lab's folder goes (bench/results/lab): results.json, report.md, plots, log.txt
  --no-build       uses the binaries in build/gpu-roformer, as scripts/gpu_roformer_speed.sh builds them
  --quick          the small setting, with bundled data: tries the script, also on a CPU (DEVICE=cpu)
  -D...            for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps -DROTARY_COMMIT=abc1234 (where git is not there)

$PYTHON is a Python that has PyTorch (python3), $ROFORMER the command (build/gpu-roformer/bin/roformer), $ROFORMER_LAB_TEST
its tests (build/gpu-roformer/tests/roformer/roformer_lab_test), $DEVICE cuda or cpu, $LIMIT the same as --limit. The exit
status is the number of labs that did not end; it is 1 and no lab is begun if tests fail, and 2 if the call is wrong or the
build fails.
END_USAGE
}

quick=0 rerun=0 tests=0 graphs=() data='' labs='' variants='' limit=${LIMIT:-} at_once=3 others=() archives=()
while (($#)); do
  case $1 in
    --data | --labs | --variants | --limit | --at-once)
      name=${1#--}
      declare "${name//-/_}=${2:?$1 needs a value}"
      shift
      ;;
    --no-graphs) graphs=(--no-graphs) ;;
    *) others+=("$1") ;;
  esac
  shift
done
parse_options quick rerun tests -- "${others[@]}"
((quick)) || [[ -n $data || $labs == tasks ]] || { usage >&2 && exit 2; } # tasks are generated
if [[ (-n $variants && (-z $labs || $labs == *,*)) || ($rerun == 1 && -z $variants) ]]; then
  echo "gpu_lab.sh: --variants needs one lab in --labs, and --rerun needs --variants" >&2
  exit 2
fi

device=${DEVICE:-cuda}
folder=$PWD/build/gpu-roformer
roformer=${ROFORMER:-$folder/bin/roformer}
results=${results:-bench/results/lab}
if ((build)) && [[ -z ${ROFORMER:-} ]]; then
  need nvidia-smi "a machine with a GPU is required"
  say "Build"
  targets=(roformer_cli)
  ((tests == 0)) || targets+=(roformer_lab_test)
  build_targets "$folder" "$folder/logs" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
    -DROTARY_PYTHON="$(command -v "${PYTHON:-python3}")" -DROTARY_BUILD_TESTS="$tests" -DROTARY_BUILD_BENCHMARKS=OFF \
    -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF -DROTARY_INSTALL=OFF -- "${targets[@]}"
fi
if ((tests)); then
  say "Tests"
  lab_test=${ROFORMER_LAB_TEST:-$folder/tests/roformer/roformer_lab_test}
  if [[ ! -x $lab_test ]]; then
    echo "gpu_lab.sh: no program $lab_test for --tests: call it without --no-build" >&2
    exit 2
  fi
  "$lab_test" --gtest_brief=1 --gtest_filter='*StepGraph*' || {
    echo "gpu_lab.sh: tests failed, no lab is begun" >&2
    exit 1
  }
fi
arguments=(--device "$device" "${graphs[@]}")
if ((quick)); then
  arguments+=(--quick)
elif [[ -n $data ]]; then
  arguments+=(--data "$data")
  [[ -e $data/enwiki2014_100MB.txt || ! -e $data/enwiki2014_100MB.txt.xz ]] ||
    xz -dk "$data/enwiki2014_100MB.txt.xz"
  [[ -e $data/glue || ! -e $data/glue_small.tar.xz ]] ||
    { mkdir -p "$data/glue" && tar -xJf "$data/glue_small.tar.xz" -C "$data/glue"; }
  for archive in "$data"/cifar10/cifar10_*.tar.xz; do
    [[ -e $data/cifar10/train || ! -e $archive ]] || archives+=("$archive")
  done
  for archive in "${archives[@]}"; do tar -xJf "$archive" -C "$data/cifar10"; done
fi
# The names in the help: "  length     Train short, ..."
[[ -n $labs ]] || labs=$("$roformer" lab --help | sed -n '/^NAME is one of/,/^$/s/^  \([a-z]*\) .*/\1/p' | tr '\n' ',')
if [[ -n $variants ]]; then
  arguments+=(--variants "$variants")
  ((rerun == 0)) || arguments+=(--rerun)
fi
labs_began=$SECONDS
# run_lab <name>: in a process of its own, which prints its time and, if it does not end well, its last lines.
run_lab() {
  local lab=$1 began=$SECONDS status=0
  mkdir -p "$results/$lab"
  local limited=() left=$((labs_began + limit - began))
  # SIGINT lets the lab write its checkpoints. A lab whose turn comes too late is not begun.
  if [[ -n $limit ]]; then
    if ((left <= 0)); then
      printf '%-10s not begun: no time left\n' "$lab"
      return 1
    fi
    limited=(timeout --signal=INT --kill-after=60 "$left")
  fi
  "${limited[@]}" "$roformer" lab "$lab" -o "$results/$lab" "${arguments[@]}" >"$results/$lab/log.txt" 2>&1 || status=$?
  rm -rf "$results/$lab/lock"
  ((status == 0)) || tail -n 5 "$results/$lab/log.txt"
  # A lab that was interrupted says so and ends well; the next call continues it.
  ! tail -n 1 "$results/$lab/log.txt" | grep -q '^stopped;' || status=1
  printf '%-10s %5d s%s\n' "$lab" $((SECONDS - began)) "$( ((status == 0)) || echo ', did not end')"
  return "$status"
}
# wait_for <count>: until fewer labs run.
wait_for() {
  while (($(jobs -pr | wc -l) >= $1)); do
    wait -n || failed=$((failed + 1))
  done
}
say "Labs"
for lab in ${labs//,/ }; do
  wait_for "$at_once"
  run_lab "$lab" &
  [[ $lab != length ]] || wait_for 1
done
while (($(jobs -p | wc -l) > 0)); do
  wait -n || failed=$((failed + 1))
  jobs >/dev/null # forgets those that ended
done
finish
