#!/usr/bin/env bash
# On a machine with a GPU: whether equal runs of RoFormer-base give equal bits, and what that costs. Every shape runs
# twice as it is by default and once with --fastest, each in a process of its own; then a pretraining run is repeated,
# and resumed from the middle.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/gpu_common.sh
. scripts/gpu_common.sh

usage() {
  cat <<'END_USAGE'
usage: scripts/gpu_roformer_repeat.sh [--results DIR] [--no-build] [--quick] [-D<variable>=<value> ...]

  --results DIR  where <gpu>-roformer-repeat.txt goes (bench/results)
  --no-build     uses the binaries in build/gpu-roformer, as scripts/gpu_roformer_speed.sh builds them
  --quick        a small model, few steps: tries the script, also on a CPU (DEVICE=cpu)
  -D...          for CMake, such as -DCMAKE_PREFIX_PATH=/opt/deps

$PYTHON is a Python that has PyTorch (python3), $ROFORMER the command (build/gpu-roformer/bin/roformer), $DEVICE cuda
or cpu. The exit status is the number of comparisons that found a difference.
END_USAGE
}

quick=0
parse_options quick -- "$@"
device=${DEVICE:-cuda}
python=$(command -v "${PYTHON:-python3}")
folder=$PWD/build/gpu-roformer
roformer=${ROFORMER:-$folder/bin/roformer}
if ((build)) && [[ -z ${ROFORMER:-} ]]; then
  need nvidia-smi "a machine with a GPU is required"
  say "Build"
  build_targets "$folder" "$folder/logs" -DROTARY_BUILD_TORCH=ON -DROTARY_BUILD_ROFORMER=ON -DROTARY_PYTHON="$python" \
    -DROTARY_BUILD_TESTS=OFF -DROTARY_BUILD_BENCHMARKS=OFF -DROTARY_BUILD_EXAMPLES=OFF -DROTARY_BUILD_C=OFF \
    -DROTARY_INSTALL=OFF -- roformer_cli
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report=$work/report.txt
show() { printf '%s\n' "$*" | tee -a "$report"; }

shapes='64x512 16x2048' steps=40 pretrain_steps=20 stage=512x64 config='{"vocab_size": 50000'
if ((quick)); then
  shapes='2x32 1x64' steps=3 pretrain_steps=4 stage=32x2
  config='{"vocab_size": 300, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96'
fi
echo "$config, \"architectures\": [\"RoFormerForMaskedLM\"]}" >"$work/config.json"
name=cpu
[[ $device == cpu ]] || name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)

# value FILE KEY: of a JSON file
value() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }

say "Runs of roformer bench, one process each"
show "RoFormer-base, masked LM, bfloat16 on a GPU; $name"
show "$(printf '%-10s %-8s %-8s %14s %14s %10s  %s' shape dropout rows tokens/s '--fastest' 'of it' bits)"
for shape in $shapes; do
  for dropout in 0.1 0; do
    for rows in plain packed; do
      more=()
      [[ $rows == plain ]] || more=(--packed)
      measure() { # FILE FLAG...
        "$roformer" bench "$work/config.json" --device "$device" --rows "${shape%x*}" --length "${shape#*x}" \
          --steps "$steps" --warmup 5 --dropout "$dropout" "${more[@]}" --json "${@:2}" >"$1"
      }
      measure "$work/a.json"
      measure "$work/fastest.json" --fastest
      measure "$work/b.json"
      bits=equal
      for key in losses weights_hash; do
        [[ $(value "$work/a.json" $key) == "$(value "$work/b.json" $key)" ]] || bits="$key differ"
      done
      [[ $bits == equal ]] || fail "$shape, dropout $dropout, $rows rows: $bits"
      speeds=("$(value "$work/a.json" tokens_per_second)" "$(value "$work/fastest.json" tokens_per_second)")
      show "$("$python" -c 'import sys
shape, dropout, rows, bits, a, b = sys.argv[1:]
print(f"{shape:<10} {dropout:<8} {rows:<8} {float(a):>14,.0f} {float(b):>14,.0f} {float(a) / float(b):>10.3f}  {bits}")' \
        "$shape" "$dropout" "$rows" "$bits" "${speeds[@]}")"
    done
  done
done

say "Pretraining: repeated, and resumed from the middle"
"$python" -c 'import random
random.seed(1)
words = ["".join(random.choices("abcdefghij", k=random.randint(2, 9))) for _ in range(500)]
for _ in range(4000):
    print(" ".join(random.choices(words, k=random.randint(20, 400))), end="\n\n")' >"$work/corpus.txt"
pretrain() { # RUN STEPS FLAG...
  "$roformer" pretrain "$1" --model "$work/config.json" --corpus "$work/corpus.txt" --cache "$work/corpus.tokens" \
    --tokenizer byte --stages "${stage}x$2" --schedule constant --warmup-steps 2 --device "$device" \
    --save-every 0 "${@:3}" >>"$work/pretrain.log"
}
pretrain "$work/once" "$pretrain_steps"
pretrain "$work/twice" "$pretrain_steps"
pretrain "$work/resumed" $((pretrain_steps / 2))
pretrain "$work/resumed" "$pretrain_steps" --resume
for run in twice resumed; do
  if cmp -s "$work/once/model/model.safetensors" "$work/$run/model/model.safetensors"; then
    show "pretraining, $run: equal bits"
  else
    fail "pretraining, $run: model.safetensors differs"
    show "pretraining, $run: the weights differ"
  fi
done

if [[ $device != cpu ]]; then
  results=${results:-bench/results}
  mkdir -p "$results"
  cp "$report" "$results/$(tr 'A-Z ' 'a-z-' <<<"$name")-roformer-repeat.txt"
fi
finish
