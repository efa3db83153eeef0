// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Config of a fine-tuning run: a JSON object. The command has a flag for each key, which overrides
/// it.
///
///   {"checkpoint": "base", "train": "train.tsv", "valid": "dev.tsv", "epochs": 3,
///    "learning_rate": 5e-5}
///
/// An unknown key or an invalid value is an error that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "roformer/train/config_keys.h"

namespace rotary::roformer {

struct TuneConfig {
  // ---- The task ---------------------------------------------------------------------------------
  std::string checkpoint;
  std::string train;
  std::string valid;
  std::string test;
  /// "auto", "classification", "matching", "regression", "tokens", "questions", or a task of GLUE.
  std::string task = "auto";
  /// "auto", "tsv", "jsonl", "conll", "triples" or "glue".
  std::string format = "auto";
  /// Columns or fields of the class and the texts.
  std::string label = "label";
  std::string text = "text_a";
  std::string second_text;
  bool zero_types = false;
  /// Of matching: "mean" or "cls".
  std::string pooling = "mean";
  std::int64_t folds = 0;
  /// RopeChange of the pretrained model: keys of rope_parameters, or a file with them; target
  /// length.
  std::string rope;
  std::int64_t context = 0;
  /// By which the best epoch is chosen: "auto" or a name of evaluate() in finetune.h.
  std::string metric = "auto";

  /// What layers learn of their rotation, as in the model's config; "auto": what that says.
  std::string rope_learn = "auto";

  // ---- The text ---------------------------------------------------------------------------------
  std::string tokenizer = "auto";
  std::string vocab;
  std::string dict;
  std::int64_t max_length = 512;
  /// Of the windows of long contexts, in tokens; 0: half a window.
  std::int64_t stride = 0;

  // ---- The steps --------------------------------------------------------------------------------
  std::int64_t epochs = 3;
  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  double learning_rate = 2e-5;
  /// "constant", "linear" or "cosine".
  std::string schedule = "linear";
  double warmup = 0.1;
  double weight_decay = 0.01;
  double clip_norm = 1.0;
  /// Layers and parameters that are not trained before step `thaw_at` (0: never); see freeze.h.
  std::vector<std::string> freeze;
  std::int64_t thaw_at = 0;
  /// -1: the model's own.
  double dropout = -1.0;
  std::uint64_t seed = 0;

  // ---- The machine, reports and checkpoints -----------------------------------------------------
  std::string device = "auto";
  std::string precision = "float32";
  bool checkpointing = false;
  std::int64_t report_every = 10;
  std::int64_t gradients_every = 0;
  /// 0: after each epoch.
  std::int64_t save_every = 0;
  std::int64_t keep = 1;
};

/// All keys in their order, bound to this config.
std::vector<BoundKey> keys_of(TuneConfig& config);

/// Throws IoError that names the file and the key.
TuneConfig read_tune_config(const std::filesystem::path& path);

/// Makes paths absolute, for the copy of the config.
TuneConfig with_absolute_paths(TuneConfig config);

/// The first key in which `config` differs from `kept` such that the run must not be resumed; empty
/// if there is none. Keys of the device and of reports may differ.
std::string other_key(const TuneConfig& config, const TuneConfig& kept);

std::string to_json(const TuneConfig& config);

}  // namespace rotary::roformer
