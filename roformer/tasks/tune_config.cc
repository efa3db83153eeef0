// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/tune_config.h"

#include <array>
#include <string_view>

namespace rotary::roformer {
namespace {

/// Keys that may change when a run is resumed.
constexpr std::array<std::string_view, 7> kFree = {
    "test", "device", "checkpointing", "report_every", "gradients_every", "save_every", "keep"};

}  // namespace

std::vector<BoundKey> keys_of(TuneConfig& config) {
  return {
      {{"checkpoint", "PATH", "the pretrained model: a folder or a .safetensors file"},
       &config.checkpoint},
      {{"train", "PATH", "labelled examples"}, &config.train},
      {{"valid", "PATH", "validation examples, to find the best epoch"}, &config.valid},
      {{"test", "PATH", "test examples, for the best epoch at the end"}, &config.test},
      {{"task", "WORD",
        "classification ([CLS], two layers), matching (pooled, one layer), regression (a number), "
        "tokens, questions, or GLUE's cola, mrpc, rte, sst-2, sts-b; auto: that of a folder of "
        "GLUE, matching for pairs and triples, tokens for .conll, else classification"},
       &config.task,
       {"auto|classification|matching|regression|tokens|questions|cola|mrpc|rte|sst-2|sts-b"}},
      {{"format", "WORD", "auto (by the file's name), tsv, jsonl, conll, triples or glue"},
       &config.format,
       {"auto|tsv|jsonl|conll|triples|glue"}},
      {{"label", "NAME", "column or field of the class or number"}, &config.label},
      {{"text", "NAME", "column or field of the text"}, &config.text},
      {{"second_text", "NAME", "column or field of the other text of a pair; else single texts"},
       &config.second_text},
      {{"zero_types", "on|off", "token types of the second text are 0, as RoFormer's authors do"},
       &config.zero_types},
      {{"pooling", "WORD", "of matching: mean or cls"}, &config.pooling, {"mean|cls"}},
      {{"folds", "K", "cross-validate with that many folds; 0: train once"},
       &config.folds,
       {{}, 0.0, 1000.0}},
      {{"rope", "JSON", "keys of rope_parameters, as JSON or in a file; else the model's"},
       &config.rope},
      {{"context", "N",
        "target length: max_position_embeddings, and the context of recipes that "
        "depend on it; 0: the model's, and the length of each text"},
       &config.context,
       {{}, 0.0, 1048576.0}},
      {{"metric", "WORD",
        "by which the best epoch is chosen: accuracy, f1, macro_f1, matthews, pearson, spearman, "
        "exact or loss; auto: spearman of numbers, F1 of entities and answers, GLUE's own, else "
        "accuracy"},
       &config.metric,
       {"auto|accuracy|f1|macro_f1|matthews|pearson|spearman|exact|loss"}},
      {{"rope_learn", "WORD",
        "what layers learn of their rotation: none, gain, frequencies, per_head or "
        "receptive_field; auto: what the model's config says"},
       &config.rope_learn,
       {"auto|none|gain|frequencies|per_head|receptive_field"}},
      {{"tokenizer", "WORD",
        "auto (roformer with a dictionary, else bert), roformer, bert, character or byte"},
       &config.tokenizer,
       {"auto|roformer|bert|character|byte"}},
      {{"vocab", "PATH", "the vocabulary; else vocab.txt with the model"}, &config.vocab},
      {{"dict", "PATH", "jieba's dictionary; else dict.txt with the model"}, &config.dict},
      {{"max_length", "N",
        "tokens at most; the rest is cut off, or read in more windows (questions)"},
       &config.max_length,
       {{}, 4.0, 1 << 24}},
      {{"stride", "N",
        "of questions: tokens between the windows that read a long context; 0: half a window"},
       &config.stride,
       {{}, 0.0, 1 << 24}},
      {{"epochs", "N", "passes over the examples"}, &config.epochs, {{}, 1.0, 100000.0}},
      {{"batch", "N", "examples per batch, over all processes; a triple is two"},
       &config.batch,
       {{}, 1.0, 1 << 20}},
      {{"accumulate", "N", "batches per step"}, &config.accumulate, {{}, 1.0, 1 << 20}},
      {{"learning_rate", "X", "peak learning rate"}, &config.learning_rate},
      {{"schedule", "WORD", "after the warm-up: constant, linear or cosine"},
       &config.schedule,
       {"constant|linear|cosine"}},
      {{"warmup", "X", "share of the steps that are warm-up"}, &config.warmup, {{}, 0.0, 1.0}},
      {{"weight_decay", "X", "of AdamW; not applied to norms and biases"}, &config.weight_decay},
      {{"clip_norm", "X", "gradient norm to clip to; 0: no clipping"}, &config.clip_norm},
      {{"freeze", "NAME...",
        "not trained: embeddings, head, layer.0-5, or parts of parameter names"},
       &config.freeze},
      {{"thaw_at", "N", "the first step that trains what freeze names; 0: none does"},
       &config.thaw_at},
      {{"dropout", "X", "dropout probability; -1: the model's"},
       &config.dropout,
       {{}, -1.0, 0.999}},
      {{"seed", "N", "random seed of new layers, order, dropout and folds"}, &config.seed},
      {{"device", "WORD", "auto (a GPU if there is one), cpu, cuda or cuda:N"}, &config.device},
      {{"precision", "WORD", "float32, bfloat16, or auto (bfloat16 on a GPU)"},
       &config.precision,
       {"auto|float32|bfloat16"}},
      {{"checkpointing", "on|off", "compute layers again in the backward pass: less memory"},
       &config.checkpointing},
      {{"report_every", "N", "steps between reports"}, &config.report_every, {{}, 1.0}},
      {{"gradients_every", "N", "steps between reports of every layer's gradient; 0: none"},
       &config.gradients_every},
      {{"save_every", "N", "steps between checkpoints; 0: after each epoch"}, &config.save_every},
      {{"keep", "N", "checkpoints that stay"}, &config.keep, {{}, 1.0}},
  };
}

TuneConfig read_tune_config(const std::filesystem::path& path) {
  TuneConfig config;
  read_config_file(keys_of(config), path);
  return config;
}

TuneConfig with_absolute_paths(TuneConfig config) {
  for (std::string* path : {&config.checkpoint, &config.train, &config.valid, &config.test,
                            &config.vocab, &config.dict}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).lexically_normal().string();
  }
  if (!config.rope.empty() && !config.rope.starts_with('{')) {
    config.rope = std::filesystem::absolute(config.rope).lexically_normal().string();
  }
  return config;
}

std::string other_key(const TuneConfig& config, const TuneConfig& kept) {
  TuneConfig a = config;
  TuneConfig b = kept;
  return std::string(roformer::other_key(keys_of(a), keys_of(b), kFree));
}

std::string to_json(const TuneConfig& config) {
  TuneConfig copy = config;
  return to_json(keys_of(copy));
}

}  // namespace rotary::roformer
