// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A model with its tokeniser: what the verbs that read text share.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/model/model.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer::cli {

struct TextOptions {
  std::string checkpoint;
  std::string vocabulary;
  std::string dictionary;
  std::string tokenizer;
  std::size_t max_length = 0;
};
/// CHECKPOINT, --vocab, --dict, --tokenizer and --max-length.
void add_text_options(CLI::App& verb, TextOptions& options);

/// Where the tokeniser's files lie; empty where there are none.
struct TextFiles {
  std::filesystem::path vocabulary;
  std::filesystem::path dictionary;
};
/// Those that were named, or those that lie with the model.
TextFiles find_text_files(const TextOptions& options);
/// As vocab.txt and dict.txt: what a model needs to be used from there.
void copy_text_files(const TextFiles& files, const std::filesystem::path& folder);
/// Throws IoError where there is no such model, UsageError where a file is not to be found.
std::shared_ptr<const Tokenizer> open_tokenizer(const TextOptions& options);

/// Throws IoError where the vocabulary has more tokens than the model.
void check_vocabulary(const Vocabulary& vocabulary, const Config& config);

struct TextModel {
  Model model;
  std::shared_ptr<const Tokenizer> tokenizer;
};
/// `task`: of the model that is wanted, where it is another than the file's. Throws UsageError
/// where a file of the tokeniser is not to be found, IoError where vocabulary and model do not fit.
TextModel open_text_model(const TextOptions& options, std::optional<Task> task = std::nullopt);

/// One row: [1, tokens].
Inputs inputs_of(const Encoding& encoding);

}  // namespace rotary::roformer::cli
