// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/text_model.h"

#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "roformer/cli/commands.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;

/// The file named by an option, else the one in the model's folder.
std::string find_file(const TextOptions& options, const std::string& named, const char* name) {
  if (!named.empty()) return named;
  const fs::path checkpoint(options.checkpoint);
  const fs::path folder = fs::is_directory(checkpoint) ? checkpoint : checkpoint.parent_path();
  return fs::exists(folder / name) ? (folder / name).string() : std::string();
}

TokenizerKind kind_of(const TextOptions& options, bool has_dictionary) {
  if (options.tokenizer == "roformer") return TokenizerKind::kRoFormer;
  if (options.tokenizer == "bert") return TokenizerKind::kBert;
  if (options.tokenizer == "character") return TokenizerKind::kCharacter;
  if (options.tokenizer == "byte") return TokenizerKind::kByte;
  return has_dictionary ? TokenizerKind::kRoFormer : TokenizerKind::kBert;
}

}  // namespace

TextFiles find_text_files(const TextOptions& options) {
  return {.vocabulary = find_file(options, options.vocabulary, "vocab.txt"),
          .dictionary = find_file(options, options.dictionary, "dict.txt")};
}

std::shared_ptr<const Tokenizer> open_tokenizer(const TextOptions& options) {
  find_checkpoint(options.checkpoint);  // First: a missing model is the better error.
  const TextFiles files = find_text_files(options);
  TokenizerOptions found{.dictionary = files.dictionary};
  found.kind = kind_of(options, !files.dictionary.empty());
  if (found.kind != TokenizerKind::kByte) {
    found.vocabulary = files.vocabulary;
    if (found.vocabulary.empty()) {
      throw UsageError("there is no vocab.txt with the model: name one with --vocab");
    }
  }
  if (found.kind == TokenizerKind::kRoFormer && found.dictionary.empty()) {
    throw UsageError("the tokenizer roformer needs jieba's dictionary: name it with --dict");
  }
  return load_tokenizer(found);
}

void check_vocabulary(const Vocabulary& vocabulary, const Config& config) {
  if (vocabulary.size() <= config.vocab_size) return;
  throw IoError(
      vocabulary.source(), IoError::kNoOffset,
      fmt::format("{} tokens, but the model has {}", vocabulary.size(), config.vocab_size));
}

void add_text_options(CLI::App& verb, TextOptions& options) {
  verb.add_option("CHECKPOINT", options.checkpoint, "A folder or a .safetensors file")
      ->required()
      ->type_name("");
  verb.add_option("--vocab", options.vocabulary,
                  "The vocabulary; default: vocab.txt in the model's folder")
      ->type_name("FILE");
  verb.add_option("--dict", options.dictionary,
                  "jieba's dictionary; default: dict.txt in the model's folder")
      ->type_name("FILE");
  verb.add_option("--tokenizer", options.tokenizer,
                  "roformer, bert, character or byte; default: roformer with a dictionary, else "
                  "bert")
      ->type_name("KIND")
      ->check(CLI::IsMember({"roformer", "bert", "character", "byte"}));
  verb.add_option("--max-length", options.max_length,
                  "Maximum number of tokens; longer texts are truncated")
      ->type_name("N");
}

void add_context_option(CLI::App& verb, RopeChange& change) {
  verb.add_option("--context", change.context,
                  "Target length: max_position_embeddings, and the context of recipes that depend "
                  "on it (dynamic, longrope); default: the length of each text")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
}

void add_rope_options(CLI::App& verb, RopeChange& change) {
  verb.add_option("--rope", change.rope, kRopeHelp)->type_name("JSON");
  add_context_option(verb, change);
}

TextModel open_text_model(const TextOptions& options, std::optional<Task> task,
                          const ConfigChange& change) {
  TextModel result{.model = nullptr, .tokenizer = open_tokenizer(options)};
  result.model = load_complete_model(options.checkpoint, [&](Config& config) {
    if (task) config.task = *task;
    try {
      apply_rope_change(options.rope, config);
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());
    }
    if (change) change(config);
  });
  check_vocabulary(result.tokenizer->vocabulary(), result.model->config());
  return result;
}

Inputs inputs_of(const Encoding& encoding) {
  const auto row = [](const std::vector<std::int32_t>& values) {
    return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong)
        .unsqueeze(0);
  };
  return {.ids = row(encoding.ids), .types = row(encoding.types)};
}

}  // namespace rotary::roformer::cli
