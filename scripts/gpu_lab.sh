#!/usr/bin/env bash
# On a machine with a GPU, nvcc and PyTorch for CUDA: builds `roformer`, and runs every lab at its full setting. What an
# earlier run left in the results is continued.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END_USAGE'
usage: scripts/gpu_lab.sh --data DIR [--labs NAME,...] [--results DIR] [--no-build] [--quick] [-D<variable>=<value> ...]

  --data DIR       the folder with enwiki2014_100MB.txt, or that file with .xz, and the data of the other labs
  --labs NAME,...  only these; default: all that `roformer lab --help` lists
  --results DIR    where each lab's folder goes (bench/results/lab): results.json, report.md, plots
  --no-build       uses the binaries in build/gpu-roformer, as scripts/gpu_roformer_speed.sh builds them
  --quick          the small setting, with bundled data: tries the script, also on a CPU (DEVICE=cpu)
  -D...            for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps -DROTARY_COMMIT=abc1234 (where git is not there)

$PYTHON is a Python that has PyTorch (python3), $ROFORMER the command (build/gpu-roformer/bin/roformer), $DEVICE cuda or
cpu, $LIMIT the seconds after which a lab is interrupted, to be continued by the next call (none). The exit status is the
number of labs that did not end.
END_USAGE
}

quick=0 data='' labs='' others=()
while (($#)); do
  case $1 in
    --data | --labs)
      declare "${1#--}=${2:?$1 needs a value}"
      shift
      ;;
    *) others+=("$1") ;;
  esac
  shift
done
parse_options quick -- "${others[@]}"
((quick)) || [[ -n $data ]] || { usage >&2 && exit 2; }

device=${DEVICE:-cuda}
folder=$PWD/build/gpu-roformer
roformer=${ROFORMER:-$folder/bin/roformer}
results=${results:-bench/results/lab}
if ((build)) && [[ -z ${ROFORMER:-} ]]; then
  need nvidia-smi "a machine with a GPU is required"
  say "Build"
  build_targets "$folder" "$folder/logs" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON \
    -DROTARY_PYTHON="$(command -v "${PYTHON:-python3}")" -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF \
    -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF -DROTARY_INSTALL=OFF -- roformer_cli
fi
arguments=(--device "$device")
if ((quick)); then
  arguments+=(--quick)
else
  arguments+=(--data "$data")
  [[ -e $data/enwiki2014_100MB.txt || ! -e $data/enwiki2014_100MB.txt.xz ]] ||
    xz -dk "$data/enwiki2014_100MB.txt.xz"
fi
# The names in the help: "  length     Train short, ..."
[[ -n $labs ]] || labs=$("$roformer" lab --help | sed -n '/^NAME is one of/,/^$/s/^  \([a-z]*\) .*/\1/p' | tr '\n' ',')
limit=()
# SIGINT lets the lab write its checkpoints.
[[ -z ${LIMIT:-} ]] || limit=(timeout --signal=INT --kill-after=60 "$LIMIT")
for lab in ${labs//,/ }; do
  say "Lab $lab"
  "${limit[@]}" "$roformer" lab "$lab" -o "$results/$lab" "${arguments[@]}" || fail "lab $lab"
  rm -rf "$results/$lab/lock"
done
finish
