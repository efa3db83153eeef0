// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "support/message.h"

namespace rotary::roformer {
namespace {

/// Keys that may change when a run is resumed.
constexpr std::array<std::string_view, 12> kFree = {
    "cache", "validation",   "device",          "checkpointing",  "shard_optimizer", "threads",
    "keep",  "report_every", "gradients_every", "evaluate_every", "save_every",      "micro_batch"};

/// Whether `stages` begin with `kept`, whose last one may be longer.
bool are_extended(const std::vector<Stage>& stages, const std::vector<Stage>& kept) {
  if (kept.empty() || stages.size() < kept.size()) return false;
  const std::size_t last = kept.size() - 1;
  if (!std::equal(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(last), stages.begin())) {
    return false;
  }
  const Stage& end = kept[last];
  return stages[last].length == end.length && stages[last].batch == end.batch &&
         stages[last].steps >= end.steps;
}

}  // namespace

std::vector<BoundKey> keys_of(RunConfig& config) {
  return {
      {{"model", "NAME", "base, small, tiny, a config.json, or {\"preset\": \"tiny\", ...}"},
       &config.model},
      {{"init", "PATH", "a checkpoint to start from, instead of model"}, &config.init},
      {{"rope", "JSON", "keys of rope_parameters, as JSON or in a file; else the model's"},
       &config.rope},
      {{"context", "N", "context of recipes that depend on it; 0: the length of each text"},
       &config.context,
       {{}, 0.0, 1048576.0}},
      {{"objective", "WORD", "masked or causal"}, &config.objective, {"masked|causal"}},
      {{"rope_learn", "WORD",
        "what layers learn of their rotation: none, gain, frequencies, per_head or "
        "receptive_field; auto: what the model's config says"},
       &config.rope_learn,
       {"auto|none|gain|frequencies|per_head|receptive_field"}},
      {{"linear_kernel", "WORD",
        "linear attention with elu, relu, cosine, rotated or favor; model: as its config says"},
       &config.linear_kernel,
       {"model|elu|relu|cosine|rotated|favor"}},
      {{"favor_rotation", "WORD", "rotate before or after favor's feature map"},
       &config.favor_rotation,
       {"model|before|after"}},
      {{"linear_decay", "X",
        "of linear attention with distance, per head: on, off, learned or a number"},
       &config.linear_decay},
      {{"corpus", "PATH...", "texts, folders of texts, or a token cache"}, &config.corpus},
      {{"format", "WORD", "auto, paragraphs (blank lines between documents), lines or jsonl"},
       &config.format,
       {"auto|paragraphs|lines|jsonl"}},
      {{"field", "NAME", "field of a JSON line that holds the text"}, &config.field},
      {{"cache", "PATH", "the tokenised corpus; corpus.tokens in the run's folder if empty"},
       &config.cache},
      {{"validation", "PATH...", "held-out texts for evaluation, as corpus"}, &config.validation},
      {{"tokenizer", "WORD",
        "auto (roformer with a dictionary, else bert), roformer, bert, "
        "character or byte"},
       &config.tokenizer,
       {"auto|roformer|bert|character|byte"}},
      {{"vocab", "PATH", "the vocabulary, one token per line"}, &config.vocab},
      {{"dict", "PATH", "jieba's dictionary"}, &config.dict},
      {{"mask_rate", "X", "share of the words that are masked"},
       &config.mask_rate,
       {{}, 1e-6, 1.0}},
      {{"whole_words", "on|off", "mask all tokens of a word together"}, &config.whole_words},
      {{"packed", "on|off", "pack several documents into a row; off: one, with padding"},
       &config.packed},
      {{"stages", "LxBxS,...", "length x rows per step x steps, one after the other"},
       &config.stages},
      {{"micro_batch", "N", "rows per forward pass of a process; 0: all of a step"},
       &config.micro_batch},
      {{"learning_rate", "X", "peak learning rate"}, &config.learning_rate},
      {{"schedule", "WORD", "after the warm-up: constant, linear or cosine"},
       &config.schedule,
       {"constant|linear|cosine"}},
      {{"warmup_steps", "N", "steps of linear warm-up to the learning rate"}, &config.warmup_steps},
      {{"final_share", "X", "share of the learning rate at the end"},
       &config.final_share,
       {{}, 0.0, 1.0}},
      {{"weight_decay", "X", "of AdamW; not applied to norms and biases"}, &config.weight_decay},
      {{"beta1", "X", "of AdamW"}, &config.beta1, {{}, 0.0, 0.999999}},
      {{"beta2", "X", "of AdamW"}, &config.beta2, {{}, 0.0, 0.999999}},
      {{"epsilon", "X", "of AdamW"}, &config.epsilon, {{}, 1e-30, 1.0}},
      {{"clip_norm", "X", "gradient norm to clip to; 0: no clipping"}, &config.clip_norm},
      {{"freeze", "NAME...",
        "not trained: embeddings, head, layer.0-5, or parts of parameter names"},
       &config.freeze},
      {{"thaw_at", "N", "the first step that trains what freeze names; 0: none does"},
       &config.thaw_at},
      {{"seed", "N", "random seed of weights, order, masks and dropout"}, &config.seed},
      {{"device", "WORD", "auto (a GPU if there is one), cpu or cuda"},
       &config.device,
       {"auto|cpu|cuda"}},
      {{"precision", "WORD", "auto (bfloat16 on a GPU), float32 or bfloat16"},
       &config.precision,
       {"auto|float32|bfloat16"}},
      {{"checkpointing", "on|off", "recompute layers in the backward pass: less memory"},
       &config.checkpointing},
      {{"deterministic", "on|off", "on a GPU: equal runs give equal bits"}, &config.deterministic},
      {{"shard_optimizer", "on|off", "shard the optimizer state over processes"},
       &config.shard_optimizer},
      {{"threads", "N", "for tokenising; 0: one per core"}, &config.threads, {{}, 0.0, 1024.0}},
      {{"report_every", "N", "steps between reports"}, &config.report_every, {{}, 1.0}},
      {{"gradients_every", "N", "steps between reports of every layer's gradient norm; 0: none"},
       &config.gradients_every},
      {{"evaluate_every", "N", "steps between evaluations; 0: at the end"}, &config.evaluate_every},
      {{"save_every", "N", "steps between checkpoints; 0: at the end"}, &config.save_every},
      {{"keep", "N", "number of checkpoints kept"}, &config.keep, {{}, 1.0}},
  };
}

std::int64_t RunConfig::steps() const noexcept {
  std::int64_t sum = 0;
  for (const Stage& stage : stages) sum += stage.steps;
  return sum;
}

RunConfig read_run_config(const std::filesystem::path& path) {
  RunConfig config;
  read_config_file(keys_of(config), path);
  return config;
}

void check_run_config(const RunConfig& config, std::int64_t num_ranks) {
  if (config.corpus.empty()) internal::reject("there is no corpus: name one with corpus");
  for (const Stage& stage : config.stages) {
    const std::int64_t rows = config.micro_batch > 0 ? config.micro_batch * num_ranks : num_ranks;
    if (stage.batch % rows != 0) {
      internal::reject("a batch of ", stage.batch, " rows is not a multiple of ", num_ranks,
                       " processes", config.micro_batch > 0 ? " with micro_batch " : "",
                       config.micro_batch > 0 ? std::to_string(config.micro_batch) : "");
    }
  }
}

std::string_view other_key(const RunConfig& config, const RunConfig& kept) {
  RunConfig a = config;
  RunConfig b = kept;
  if (a.schedule == "constant" && are_extended(a.stages, b.stages)) a.stages = b.stages;
  return other_key(keys_of(a), keys_of(b), kFree);
}

std::string to_json(const RunConfig& config) {
  RunConfig copy = config;
  return to_json(keys_of(copy));
}

}  // namespace rotary::roformer
