#!/usr/bin/env bash
# The run of docs/results.md: pretrains a RoFormer on a Chinese corpus, optionally within a time limit, evaluates it by
# context length, fills masks, and fine-tunes it on reviews (ChnSentiCorp) and on cases (CAIL2019-SCM).
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: scripts/gpu_roformer.sh DATA RESULTS [--stages LxBxS,...] [--seconds N] [--model JSON] [--rate R]

  DATA             a folder: zhwiki.txt or zhwiki.txt.xz (documents separated by blank lines), vocab.txt, dict.txt or
                   dict.txt.xz, chnsenticorp/{train,dev,test}.tsv, scm.jsonl
  RESULTS          a folder for results.json, metrics.jsonl, log.txt
  --stages ...     length x rows x steps, as for roformer pretrain (default: those of docs/results.md)
  --seconds N      instead of --stages: as many steps as fit into that time, by a speed measured first
  --model JSON     the model (6 layers of 768)
  --rate R         the maximum learning rate of pretraining (4e-4)

$ROFORMER is the command (build/bin/roformer), $WORK the folder of the run (build/gpu-roformer), $DEVICE cuda or cpu.
END
}

data='' results='' seconds='' rate=4e-4 stages=256x256x1450,512x128x650,1024x64x501
model='{"hidden_size": 768, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 3072,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}'
while (($#)); do
  case $1 in
    --seconds) seconds=${2:?} && shift ;;
    --model) model=${2:?} && shift ;;
    --rate) rate=${2:?} && shift ;;
    --stages) stages=${2:?} && shift ;;
    -h | --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) if [[ -z $data ]]; then data=$1; else results=$1; fi ;;
  esac
  shift
done
[[ -n $results ]] || { usage >&2 && exit 2; }

roformer=${ROFORMER:-build/bin/roformer}
work=${WORK:-build/gpu-roformer}
device=${DEVICE:-cuda}
shares=${SHARES:-256x256:0.53 512x128:0.25 1024x64:0.22}
helper="python3 scripts/gpu_roformer_helper.py"
rm -rf "$work" && mkdir -p "$work" "$results"
exec > >(tee "$results/log.txt") 2>&1

# Results so far are collected even after a failure.
trap '$helper collect "$work" "$results/results.json"' EXIT
say() { printf '\n== %s  [%d s]\n' "$1" "$SECONDS"; }
unpacked() { # path of a file of DATA, unpacked if it is compressed
  if [[ -e $data/$1 ]]; then echo "$data/$1"; else $helper unpack "$data/$1.xz" "$work/$1" && echo "$work/$1"; fi
}

say 'data: every 40th document is held out'
vocab=$data/vocab.txt
dict=$(unpacked dict.txt)
$helper split "$(unpacked zhwiki.txt)" "$work/train.txt" "$work/held_out.txt"

pretrain() { # RUN STAGES WARMUP ...
  local run=$1 stages=$2 warmup=$3
  shift 3
  "$roformer" pretrain "$run" --model "$model" --corpus "$work/train.txt" --cache "$work/train.tokens" \
    --vocab "$vocab" --dict "$dict" --stages "$stages" --warmup-steps "$warmup" --learning-rate "$rate" \
    --beta2 0.98 --device "$device" --save-every 0 --keep 1 "$@"
}

if [[ -n $seconds ]]; then
  say 'speed of each stage'
  pretrain "$work/trial" "$($helper stages "$shares" --steps "${TRIAL_STEPS:-40}")" 10 --report-every 5
  stages=$($helper stages "$shares" --trial "$work/trial/metrics.jsonl" --seconds "$seconds")
fi
warmup=$($helper warmup "$stages")

say "pretraining: $stages, warm-up $warmup"
pretrain "$work/run" "$stages" "$warmup" --report-every 10 --evaluate-every "${EVALUATE_EVERY:-400}" \
  --validation "$work/held_out.txt"
cp "$work/run/metrics.jsonl" "$results/metrics.jsonl"
trained=$work/run/model

say 'masked LM by length, held-out documents'
# A failed part is reported; the others still run.
evaluate() { "$roformer" evaluate "$@" --device "$device" --json || echo "evaluate failed: $*" >&2; }
evaluate "$trained" "$work/held_out.txt" --lengths "${LENGTHS:-128,256,512,1024,1536,2048}" --tokens 400000 \
  >"$work/lengths.json"
cat "$work/lengths.json"

say 'fill-mask'
"$roformer" fill-mask "$trained" '今天[MASK]很好，我[MASK]去公园玩。' '北京是中国的[MASK]。' \
  '他毕业于北京[MASK]，后来成为一名[MASK]。' '这部[MASK]由张艺谋导演。' '长江是亚洲最长的[MASK]。' \
  '水在零[MASK]时结冰。' --json | tee "$work/masks.jsonl" || echo 'fill-mask failed'

say 'fine-tuning: reviews; cases at 512 and at 1024 tokens; the same from untrained weights'
# Baseline without pretraining: one step with learning rate 0.
rate=0 pretrain "$work/none" 256x8x1 0 >/dev/null
tune() { # NAME MODEL ...
  local name=$1 from=$2
  shift 2
  "$roformer" finetune "$from" "$@" --device "$device" --precision bfloat16 --dropout 0.1 --json \
    >"$work/$name.json" 2>"$work/$name.err" || { echo "$name failed"; cat "$work/$name.err"; }
}
reviews=("$data/chnsenticorp/train.tsv" --valid "$data/chnsenticorp/dev.tsv" --test "$data/chnsenticorp/test.tsv"
  --max-length 256 --epochs "${EPOCHS:-3}" --learning-rate 5e-5)
cases=("$data/scm.jsonl" --format triples --zero-types on --folds 5 --batch 8 --epochs "${EPOCHS:-5}" --learning-rate 3e-5)
tune reviews "$trained" "${reviews[@]}" --output "$work/reviews" & jobs=($!)
for seed in 0 1 2; do
  for length in 512 1024; do
    tune "cases-$length-seed$seed" "$trained" "${cases[@]}" --max-length "$length" --seed "$seed" & jobs+=($!)
  done
done
tune reviews-untrained "$work/none/model" "${reviews[@]}" --output "$work/reviews-untrained" & jobs+=($!)
for length in 512 1024; do
  evaluate "$trained" "$data/scm.jsonl" --format triples --max-length "$length" >"$work/cosine-$length.json"
done
python3 bench/roformer/tfidf_triples.py "$data/scm.jsonl" >"$work/tfidf.json"
wait "${jobs[@]}"
say "results: $results"
