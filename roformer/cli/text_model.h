// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A model with its tokeniser, for verbs that read text.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/model/model.h"
#include "roformer/model/rope_config.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer::cli {

struct TextOptions {
  std::string checkpoint;
  std::string vocabulary;
  std::string dictionary;
  std::string tokenizer;
  std::size_t max_length = 0;
  RopeChange rope{};
};
/// CHECKPOINT, --vocab, --dict, --tokenizer and --max-length.
void add_text_options(CLI::App& verb, TextOptions& options);

/// --rope and --context.
void add_rope_options(CLI::App& verb, RopeChange& change);
inline constexpr const char* kRopeHelp =
    "Rotate otherwise than the model's config says: keys of rope_parameters as JSON, or a file";
void add_context_option(CLI::App& verb, RopeChange& change);

/// Paths of the tokeniser's files; empty if there are none.
struct TextFiles {
  std::filesystem::path vocabulary;
  std::filesystem::path dictionary;
};
/// The files named by options, else those in the model's folder.
TextFiles find_text_files(const TextOptions& options);
/// Throws IoError if there is no such model, UsageError if a file is missing.
std::shared_ptr<const Tokenizer> open_tokenizer(const TextOptions& options);

/// Throws IoError if the vocabulary has more tokens than the model.
void check_vocabulary(const Vocabulary& vocabulary, const Config& config);

struct TextModel {
  Model model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
/// `task`: instead of that of the config; `change`: of the config, after --rope. Throws UsageError
/// if a file of the tokeniser is missing or --rope is wrong, IoError if vocabulary and model do not
/// match.
TextModel open_text_model(const TextOptions& options, std::optional<Task> task = std::nullopt,
                          const ConfigChange& change = {});

/// One row: [1, tokens].
Inputs inputs_of(const Encoding& encoding);

}  // namespace rotary::roformer::cli
