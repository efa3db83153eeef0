// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary completion, and rotary models.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "console/output.h"
#include "explain/text_layout.h"
#include "rotary/model.h"
#include "tools/commands.h"

namespace rotary::cli {
namespace {

constexpr const char* kBash = R"(# rotary: add to ~/.bashrc   source <(rotary completion bash)
_rotary() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=
  if ((COMP_CWORD == 1)); then
    words="inspect rotate diff bounds decay map plan permute export precision explore bench"
    words+=" models completion --help --version"
  elif [[ $previous == --precision ]]; then
    words="exact reference"
  elif [[ $previous == --to || $previous == --from ]]; then
    words="interleaved half"
  elif [[ $previous == --dtype ]]; then
    words="fp32 bf16 fp16 fp64"
  elif [[ $previous == --shape ]]; then
    words="decode cached prefill batch"
  elif [[ $previous == --kind ]]; then
    words="scores phases plane"
  elif [[ ${COMP_WORDS[1]} == export && COMP_CWORD -eq 2 ]]; then
    words="onnx"
  elif [[ ${COMP_WORDS[1]} == completion ]]; then
    words="bash zsh fish"
  elif [[ $current == -* ]]; then
    case ${COMP_WORDS[1]} in
      inspect) words="--context --dialect --json --rope --help" ;;
      diff) words="--all --context --dialect --json --rope --help" ;;
      bounds | precision) words="--rope --dim --base --context --json --help" ;;
      decay) words="--rope --dim --base --context --distances --json --help" ;;
      map) words="--rope --dim --base --context --kind --size --out --json --help" ;;
      plan) words="--context --engine --rope --json --help" ;;
      permute) words="--to --from --out --help" ;;
      export) words="--out --rope --length --context --dtype --opset --help" ;;
      explore) words="--out --no-open --help" ;;
      rotate) words="--positions --rope --precision --inverse --context --tensor --help" ;;
      bench) words="--shape --dtype --threads --target --out --quick --json --help" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _rotary rotary
)";

constexpr const char* kZsh = R"(#compdef rotary
# rotary: add to ~/.zshrc   source <(rotary completion zsh)
_rotary() {
  local -a verbs=(
    'inspect:show and explain the rotation of a model'
    'rotate:rotate a tensor in a file as the model would'
    'diff:compare the rotations of two models'
    'bounds:show which contexts a base serves'
    'decay:show how scores fall with the distance'
    'map:draw scores or phases of a rotation'
    'plan:show what to do for a context'
    'permute:rewrite weights for the other pairing'
    'export:write the rotation of a model for another runtime'
    'precision:show errors of angles in low precision'
    'explore:show a model in the browser'
    'bench:measure the rotation against a copy of the same bytes'
    'models:list the known model types'
    'completion:print a completion script')
  if ((CURRENT == 2)); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  local -a common=('--rope[only this rope]:name:' '--context[context in use]:number:')
  case $verb in
    inspect | diff)
      _arguments $common '--json[print JSON]' '--dialect[of this framework]:name:' \
        '--all[all dialects]' '1:model:_files' '2:model:_files'
      ;;
    bounds | decay | map | precision)
      _arguments $common '--json[print JSON]' '--dim[dims of plain RoPE]:number:' \
        '--base[its base]:number:' '--distances[the last distance]:number:' \
        '--kind[of map]:kind:(scores phases plane)' '--size[positions]:number:' \
        '--out[write a picture]:file:_files' '1:model:_files'
      ;;
    plan)
      _arguments $common '--json[print JSON]' '--engine:engine:(hf vllm sglang llama.cpp)' \
        '1:model:_files'
      ;;
    export)
      _arguments $common '--out[file to write]:file:_files' '--length[positions]:number:' \
        '--dtype:type:(float32 float16 bfloat16)' '--opset:number:' '1:format:(onnx)' \
        '2:model:_files'
      ;;
    permute)
      _arguments '--to[pairing to write]:pairing:(interleaved half)' \
        '--from[pairing of the weights]:pairing:(interleaved half)' \
        '--out[new folder]:out:_files' '1:model:_files'
      ;;
    explore)
      _arguments '--out[the page]:file:_files' '--no-open[do not open it]' '1:model:_files'
      ;;
    rotate)
      _arguments $common '--positions[range or file]:positions:_files' '--inverse[undo]' \
        '--precision:precision:(exact reference)' '--tensor[tensor of IN]:name:' \
        '1:model:_files' '2:in:_files' '3:out:_files'
      ;;
    bench)
      _arguments '--shape[shapes]:shape:(decode cached prefill batch)' '--json[print JSON]' \
        '--dtype[types]:type:(fp32 bf16 fp16 fp64)' '--threads[numbers of threads]:number:' \
        '--target[vector instructions]:name:' '--out[write JSON]:file:_files' \
        '--quick[few repetitions]'
      ;;
    completion) _arguments '1:shell:(bash zsh fish)' ;;
  esac
}
compdef _rotary rotary
)";

constexpr const char* kFish = R"(# rotary: save as ~/.config/fish/completions/rotary.fish
set -l verbs inspect rotate diff bounds decay map plan permute export precision explore bench
set -a verbs models completion
set -l analyses bounds decay map plan precision
complete -c rotary -n "not __fish_seen_subcommand_from $verbs" -f -a "$verbs"
complete -c rotary -n "__fish_seen_subcommand_from completion" -f -a "bash zsh fish"
complete -c rotary -n "__fish_seen_subcommand_from inspect diff bench" -l json -d "Print JSON"
complete -c rotary -n "__fish_seen_subcommand_from inspect diff rotate" -x -l rope -d "Rope"
complete -c rotary -n "__fish_seen_subcommand_from inspect diff rotate" -x -l context -d "Context"
complete -c rotary -n "__fish_seen_subcommand_from $analyses" -l json -d "Print JSON"
complete -c rotary -n "__fish_seen_subcommand_from $analyses" -x -l rope -d "Rope"
complete -c rotary -n "__fish_seen_subcommand_from $analyses" -x -l context -d "Context"
complete -c rotary -n "__fish_seen_subcommand_from $analyses" -x -l dim -d "Dims of plain RoPE"
complete -c rotary -n "__fish_seen_subcommand_from $analyses" -x -l base -d "Its base"
complete -c rotary -n "__fish_seen_subcommand_from plan" -x -l engine -a "hf vllm sglang llama.cpp"
complete -c rotary -n "__fish_seen_subcommand_from export" -a "onnx"
complete -c rotary -n "__fish_seen_subcommand_from export" -r -s o -l out -d "File to write"
complete -c rotary -n "__fish_seen_subcommand_from export" -x -l dtype -d "Type of the caches"
complete -c rotary -n "__fish_seen_subcommand_from permute" -x -l to -a "interleaved half"
complete -c rotary -n "__fish_seen_subcommand_from permute" -x -l from -a "interleaved half"
complete -c rotary -n "__fish_seen_subcommand_from permute" -r -s o -l out -d "New folder"
complete -c rotary -n "__fish_seen_subcommand_from decay" -x -l distances -d "The last distance"
complete -c rotary -n "__fish_seen_subcommand_from map" -x -l kind -a "scores phases plane"
complete -c rotary -n "__fish_seen_subcommand_from map" -x -l size -d "Positions"
complete -c rotary -n "__fish_seen_subcommand_from map" -r -s o -l out -d "Write a picture"
complete -c rotary -n "__fish_seen_subcommand_from explore" -r -s o -l out -d "The page"
complete -c rotary -n "__fish_seen_subcommand_from explore" -l no-open -d "Do not open it"
complete -c rotary -n "__fish_seen_subcommand_from inspect diff" -x -l dialect -d "Framework"
complete -c rotary -n "__fish_seen_subcommand_from diff" -l all -d "All dialects"
complete -c rotary -n "__fish_seen_subcommand_from rotate" -r -l positions -d "Range or file"
complete -c rotary -n "__fish_seen_subcommand_from rotate" -x -l precision -a "exact reference"
complete -c rotary -n "__fish_seen_subcommand_from rotate" -l inverse -d "Undo the rotation"
complete -c rotary -n "__fish_seen_subcommand_from rotate" -x -l tensor -d "Tensor of IN"
complete -c rotary -n "__fish_seen_subcommand_from bench" -x -l shape -a "decode cached"
complete -c rotary -n "__fish_seen_subcommand_from bench" -x -l shape -a "prefill batch"
complete -c rotary -n "__fish_seen_subcommand_from bench" -x -l dtype -a "fp32 bf16 fp16 fp64"
complete -c rotary -n "__fish_seen_subcommand_from bench" -x -l threads -d "Numbers of threads"
complete -c rotary -n "__fish_seen_subcommand_from bench" -x -l target -d "Vector instructions"
complete -c rotary -n "__fish_seen_subcommand_from bench" -r -l out -d "Write JSON to a file"
complete -c rotary -n "__fish_seen_subcommand_from bench" -l quick -d "Few repetitions"
)";

std::string_view script_for(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  throw UsageError("SHELL must be bash, zsh or fish, got '" + shell + "'");
}

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("completion", "Print a completion script for a shell");
  verb->footer("Example:\n  source <(rotary completion bash)");
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required()->type_name("");
  verb->callback([shell] { console::print_out(script_for(*shell)); });
}

void add_models(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("models", "List the model types that are known by name");
  verb->footer(
      "Other models are read by the usual keys of config.json; `inspect` lists the assumptions.");
  verb->callback([] { console::print_out(explain::join(known_model_types(), "\n") + "\n"); });
}

}  // namespace rotary::cli
