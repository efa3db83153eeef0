// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_config.h"

#include "support/message.h"

namespace rotary::roformer {

std::vector<BoundKey> keys_of(RunConfig& config) {
  return {
      {{"model", "NAME", "base, small, tiny, a config.json, or {\"hidden_size\": ...}"},
       &config.model},
      {{"init", "PATH", "a checkpoint to begin with, in the place of model"}, &config.init},
      {{"objective", "WORD", "masked or causal"}, &config.objective, {"masked|causal"}},
      {{"corpus", "PATH...", "texts, folders of texts, or a token cache"}, &config.corpus},
      {{"format", "WORD", "auto, paragraphs (blank lines between documents), lines or jsonl"},
       &config.format,
       {"auto|paragraphs|lines|jsonl"}},
      {{"field", "NAME", "of a JSON line: where the text is"}, &config.field},
      {{"cache", "PATH", "the tokenised corpus; corpus.tokens in the run's folder if empty"},
       &config.cache},
      {{"validation", "PATH...", "texts to measure with, as corpus"}, &config.validation},
      {{"tokenizer", "WORD",
        "auto (roformer with a dictionary, else bert), roformer, bert, "
        "character or byte"},
       &config.tokenizer,
       {"auto|roformer|bert|character|byte"}},
      {{"vocab", "PATH", "the vocabulary, a token a line"}, &config.vocab},
      {{"dict", "PATH", "jieba's dictionary"}, &config.dict},
      {{"mask_rate", "X", "share of the words to be guessed"}, &config.mask_rate, {{}, 1e-6, 1.0}},
      {{"whole_words", "on|off", "mask all tokens of a word, or each for itself"},
       &config.whole_words},
      {{"packed", "on|off", "several documents a row, or one and padding"}, &config.packed},
      {{"stages", "LxBxS,...", "length x rows a step x steps, one after the other"},
       &config.stages},
      {{"micro_batch", "N", "rows that a process computes at once; 0: all of a step"},
       &config.micro_batch},
      {{"learning_rate", "X", "the highest"}, &config.learning_rate},
      {{"schedule", "WORD", "after the warm-up: constant, linear or cosine"},
       &config.schedule,
       {"constant|linear|cosine"}},
      {{"warmup_steps", "N", "steps until the learning rate is at its highest"},
       &config.warmup_steps},
      {{"final_share", "X", "what is left of the learning rate at the end"},
       &config.final_share,
       {{}, 0.0, 1.0}},
      {{"weight_decay", "X", "of AdamW; not of norms and biases"}, &config.weight_decay},
      {{"beta1", "X", "of AdamW"}, &config.beta1, {{}, 0.0, 0.999999}},
      {{"beta2", "X", "of AdamW"}, &config.beta2, {{}, 0.0, 0.999999}},
      {{"epsilon", "X", "of AdamW"}, &config.epsilon, {{}, 1e-30, 1.0}},
      {{"clip_norm", "X", "largest norm of the gradient; 0: any"}, &config.clip_norm},
      {{"seed", "N", "of weights, order, masks and dropout"}, &config.seed},
      {{"device", "WORD", "auto (a GPU where there is one), cpu or cuda"},
       &config.device,
       {"auto|cpu|cuda"}},
      {{"precision", "WORD", "auto (bfloat16 on a GPU), float32 or bfloat16"},
       &config.precision,
       {"auto|float32|bfloat16"}},
      {{"checkpointing", "on|off", "compute layers again in the backward pass: less memory"},
       &config.checkpointing},
      {{"shard_optimizer", "on|off", "each process keeps a part of the optimizer's state"},
       &config.shard_optimizer},
      {{"threads", "N", "for tokenising; 0: one a processor"}, &config.threads, {{}, 0.0, 1024.0}},
      {{"report_every", "N", "steps between reports"}, &config.report_every, {{}, 1.0}},
      {{"gradients_every", "N", "steps between reports of every layer's gradient; 0: none"},
       &config.gradients_every},
      {{"evaluate_every", "N", "steps between measurements with validation; 0: at the end"},
       &config.evaluate_every},
      {{"save_every", "N", "steps between checkpoints; 0: at the end"}, &config.save_every},
      {{"keep", "N", "checkpoints that stay"}, &config.keep, {{}, 1.0}},
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
      internal::reject("a batch of ", stage.batch, " rows is no multiple of ", num_ranks,
                       " processes", config.micro_batch > 0 ? " with micro_batch " : "",
                       config.micro_batch > 0 ? std::to_string(config.micro_batch) : "");
    }
  }
}

std::string to_json(const RunConfig& config) {
  RunConfig copy = config;
  return to_json(keys_of(copy));
}

}  // namespace rotary::roformer
