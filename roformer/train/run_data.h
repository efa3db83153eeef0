// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The texts of a pretraining run, tokenised.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "roformer/data/batch_stream.h"
#include "roformer/data/token_cache.h"
#include "roformer/text/tokenizer.h"
#include "roformer/train/run_config.h"

namespace rotary::roformer {

/// Throws std::invalid_argument if a file that it needs is not named, IoError for a bad file.
std::shared_ptr<const Tokenizer> open_run_tokenizer(const RunConfig& config);

/// A corpus or validation set: a token cache, or texts that are tokenised into `cache`. CACHE.json
/// beside it records its sources.
struct CorpusFiles {
  const RunConfig& config;
  const std::vector<std::string>& paths;
  std::filesystem::path cache;

  /// Whether there is no cache, or one of other texts (by name, size and time), format or
  /// tokeniser. One without a CACHE.json is trusted.
  bool needs_tokenizing(const Tokenizer& tokenizer) const;
  void tokenize(const Tokenizer& tokenizer,
                const std::function<void(std::uint64_t, std::uint64_t)>& progress) const;
  /// Throws IoError for a cache of another tokeniser.
  std::shared_ptr<const TokenCache> open(const Tokenizer& tokenizer) const;
};

/// The rows of a stage, for one rank.
BatchOptions batch_options_of(const RunConfig& config, const Stage& stage, std::int64_t rank,
                              std::int64_t num_ranks);

}  // namespace rotary::roformer
