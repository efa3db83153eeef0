// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Config of a pretraining run: a JSON object. The command has a flag for each key, which overrides
/// it.
///
///   {"model": "base", "corpus": ["zhwiki.txt"], "vocab": "vocab.txt", "dict": "dict.txt",
///    "stages": "512x256x200000, 1536x256x12500", "learning_rate": 1e-4}
///
/// An unknown key or an invalid value is an error that names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "roformer/train/config_keys.h"

namespace rotary::roformer {

struct RunConfig {
  // ---- The model --------------------------------------------------------------------------------
  /// "base", "small", "tiny", a config.json, or a JSON object with its keys.
  std::string model = "base";
  /// A checkpoint to initialise the weights from; its config is then the model's.
  std::string init;
  /// RopeChange of the model: keys of rope_parameters, or a file with them; target length.
  std::string rope;
  std::int64_t context = 0;
  /// "masked" or "causal".
  std::string objective = "masked";
  /// What layers learn of their rotation, as in the model's config; "auto": what that says.
  std::string rope_learn = "auto";
  /// Linear attention of a new model (roformer/model/linear_config.h); "model": as its config says.
  /// A kernel implies attention_type "linear"; the decay is "on", "off", "learned" or a number.
  std::string linear_kernel = "model";
  std::string favor_rotation = "model";
  std::string linear_decay = "model";

  // ---- The data ---------------------------------------------------------------------------------
  /// Texts, folders of texts, or one token cache.
  std::vector<std::string> corpus;
  /// "auto" (.jsonl by its name), "paragraphs" (blank lines between documents), "lines", "jsonl".
  std::string format = "auto";
  std::string field = "text";
  /// Path of the tokenised corpus; empty: corpus.tokens in the run's folder.
  std::string cache;
  /// Held-out texts for evaluation.
  std::vector<std::string> validation;
  /// "auto": roformer with a dictionary, else bert; "roformer", "bert", "character", "byte".
  std::string tokenizer = "auto";
  std::string vocab;
  std::string dict;
  double mask_rate = 0.15;
  bool whole_words = true;
  /// Packs several documents into a row, each with its own attention; else one, with padding.
  bool packed = true;

  // ---- The steps --------------------------------------------------------------------------------
  std::vector<Stage> stages{Stage{}};
  /// Rows per forward pass of a process; 0: all of a step.
  std::int64_t micro_batch = 0;
  double learning_rate = 1e-4;
  /// "constant", "linear", "cosine".
  std::string schedule = "linear";
  std::int64_t warmup_steps = 1000;
  double final_share = 0.0;
  double weight_decay = 0.01;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double clip_norm = 1.0;
  /// Layers and parameters that are not trained before step `thaw_at` (0: never); see freeze.h.
  std::vector<std::string> freeze;
  std::int64_t thaw_at = 0;
  std::uint64_t seed = 0;

  // ---- The machine ------------------------------------------------------------------------------
  /// "auto" (a GPU if there is one), "cpu", "cuda".
  std::string device = "auto";
  /// "auto" (bfloat16 on a GPU), "float32", "bfloat16".
  std::string precision = "auto";
  bool checkpointing = false;
  /// On a GPU: gradients with the same bits in every run.
  bool deterministic = true;
  bool shard_optimizer = false;
  /// For tokenising; 0: one per core.
  std::int64_t threads = 0;

  // ---- Reports and checkpoints ------------------------------------------------------------------
  std::int64_t report_every = 10;
  std::int64_t gradients_every = 0;
  std::int64_t evaluate_every = 1000;
  std::int64_t save_every = 1000;
  std::int64_t keep = 2;

  std::int64_t steps() const noexcept;
};

/// All keys in their order, bound to this config; the flag of `mask_rate` is --mask-rate.
std::vector<BoundKey> keys_of(RunConfig& config);

/// Throws IoError that names the file and the key.
RunConfig read_run_config(const std::filesystem::path& path);
/// Checks rules between keys. Throws std::invalid_argument.
void check_run_config(const RunConfig& config, std::int64_t num_ranks);

/// The key by which a run with `config` would not continue the run of `kept`; empty if there is
/// none. What does not change the weights may differ, and a constant schedule may get more steps.
std::string_view other_key(const RunConfig& config, const RunConfig& kept);

std::string to_json(const RunConfig& config);

}  // namespace rotary::roformer
