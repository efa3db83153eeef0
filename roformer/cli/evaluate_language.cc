// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer evaluate, for language models: the loss by context length, and by rope.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/evaluate.h"
#include "roformer/data/token_cache.h"
#include "roformer/tasks/language.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;

std::vector<std::int64_t> lengths_of(const EvaluateOptions& options) {
  if (!options.lengths.empty()) return options.lengths;
  // That of the file: --context changes the model's.
  const std::int64_t trained =
      options.train_length > 0
          ? options.train_length
          : read_config(find_checkpoint(options.text.checkpoint).config).max_position_embeddings;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t quarters : {1, 2, 4, 8, 16, 32}) {
    if (trained * quarters / 4 > 3) lengths.push_back(trained * quarters / 4);
  }
  return lengths;
}

Masking masking_of(const EvaluateOptions& options) {
  return {.rate = options.mask_rate,
          .unit = options.mask_unit == "word" ? MaskUnit::kWord : MaskUnit::kToken};
}

Framing framing_of(const EvaluateOptions& options) {
  return options.framing == "cls-sep" ? Framing::kClsSep
         : options.framing == "sep"   ? Framing::kSep
                                      : Framing::kNone;
}

std::unique_ptr<DocumentStream> open_documents(const EvaluateOptions& options,
                                               std::shared_ptr<const Tokenizer> tokenizer) {
  const StreamOptions once{.order = Order::kInOrder, .epochs = 1};
  if (std::filesystem::path(options.data.front()).extension() == ".tokens") {
    auto cache = std::make_shared<const TokenCache>(options.data.front());
    cache->check_tokenizer(*tokenizer);
    return open_stream(std::move(cache), once);
  }
  Corpus corpus{.files = {options.data.begin(), options.data.end()}};
  if (options.examples.format == "lines") corpus.format = DocumentFormat::kLines;
  if (options.examples.format == "jsonl") {
    corpus.format = DocumentFormat::kJsonl;
    corpus.field = options.examples.columns.first;
  }
  const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
  return open_text_stream(std::move(corpus), std::move(tokenizer),
                          {.stream = once, .block = 64, .threads = threads});
}

std::vector<TokenDocument> read_texts(const EvaluateOptions& options,
                                      std::shared_ptr<const Tokenizer> tokenizer,
                                      std::int64_t longest) {
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  const std::int64_t tokens = longest - framing_tokens(framing_of(options));
  if (tokens < 1)
    throw UsageError(fmt::format("a length of {} is too short for any token", longest));
  const auto texts =
      take_texts(*open_documents(options, tokenizer), vocabulary,
                 {.tokens = static_cast<std::size_t>(tokens),
                  .max_total = options.tokens,
                  .choice = options.texts == "joined" ? TextChoice::kJoined : TextChoice::kLong});
  if (texts.empty()) {
    throw IoError(
        options.data.front(), IoError::kNoOffset,
        fmt::format("no document has {} tokens: name shorter --lengths, or join documents "
                    "with --texts joined",
                    tokens));
  }
  return texts;
}

constexpr const char* kBeyondTable = "beyond its table";

/// None for a length that a learned table of positions does not have.
std::optional<LanguageScore> score_at(std::int64_t length, const EvaluateOptions& options,
                                      const TextModel& text,
                                      const std::vector<TokenDocument>& texts) {
  const Config& config = text.model->config();
  if (config.position_encoding.find("learned") != std::string::npos &&
      length > config.max_position_embeddings) {
    return std::nullopt;
  }
  return score_language(*text.model, text.tokenizer->vocabulary(), texts,
                        {.length = length,
                         .framing = framing_of(options),
                         .masking = masking_of(options),
                         .seed = options.seed,
                         .batch_tokens = options.batch_tokens});
}

Json score_json(std::int64_t length, const std::optional<LanguageScore>& score) {
  if (!score) return {{"length", length}, {"error", kBeyondTable}};
  return {{"length", length},
          {"tokens", score->tokens},
          {"loss", score->loss},
          {"perplexity", score->perplexity()},
          {"accuracy", score->accuracy}};
}

// ---- Ropes --------------------------------------------------------------------------------------

/// "yarn x4": the head of a column.
std::string rope_label(const std::string& rope, const Config& config) {
  if (rope == "model") return rope;
  const Json dict = internal::parse_json(config.rope_parameters, "rope_parameters");
  const Json* type = dict.find("rope_type");
  if (type == nullptr) type = dict.find("type");
  std::string label = type != nullptr && type->is_string() ? type->as_string() : "default";
  if (const Json* factor = dict.find("factor"); factor != nullptr && factor->is_number()) {
    label += fmt::format(" x{:g}", factor->as_double());
  }
  return explain::printable(label);
}

/// A column of the table: a rope and its losses.
struct RopeColumn {
  std::string label;
  Json rope;
  std::vector<std::optional<LanguageScore>> scores{};
};

void print_columns(const std::vector<std::int64_t>& lengths,
                   const std::vector<RopeColumn>& columns) {
  std::string table = fmt::format("{:>7} {:>9}", "length", "tokens");
  const auto width_of = [](const RopeColumn& column) {
    return std::max<std::size_t>(column.label.size(), std::string_view(kBeyondTable).size());
  };
  for (const RopeColumn& column : columns) {
    table += fmt::format("  {:>{}}", column.label, width_of(column));
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto any =
        std::ranges::find_if(columns, [i](const auto& c) { return c.scores[i].has_value(); });
    table += fmt::format("\n{:>7} {:>9}", lengths[i],
                         any == columns.end() ? "" : std::to_string(any->scores[i]->tokens));
    for (const RopeColumn& column : columns) {
      const auto& score = column.scores[i];
      table += fmt::format("  {:>{}}", score ? fmt::format("{:.4f}", score->loss) : kBeyondTable,
                           width_of(column));
    }
  }
  console::print_out(table + "\n");
}

}  // namespace

void evaluate_language(const EvaluateOptions& options, const TextModel& text) {
  const std::vector<std::int64_t> lengths = lengths_of(options);
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const auto texts = read_texts(options, text.tokenizer, longest);
  Json json = {{"architecture", architecture_of(text.model->config())},
               {"texts", texts.size()},
               {"tokens_of_a_text", texts.front().size()},
               {"lengths", Json::array()}};
  if (!options.json) {
    console::print_out(fmt::format("{} texts of {} tokens\n\n{:>7} {:>9} {:>8} {:>11} {:>9}\n",
                                   texts.size(), texts.front().size(), "length", "tokens", "loss",
                                   "perplexity", "accuracy"));
  }
  for (const std::int64_t length : lengths) {
    const std::optional<LanguageScore> score = score_at(length, options, text, texts);
    json["lengths"].push_back(score_json(length, score));
    if (options.json) continue;
    console::print_out(score ? fmt::format("{:>7} {:>9} {:>8.4f} {:>11.3f} {:>7.2f} %\n", length,
                                           score->tokens, score->loss, score->perplexity(),
                                           100 * score->accuracy)
                             : fmt::format("{:>7} {}\n", length, kBeyondTable));
  }
  if (options.json) print_json(json);
}

void compare_ropes(const EvaluateOptions& options, TextModel first) {
  const std::vector<std::int64_t> lengths = lengths_of(options);
  const auto texts = read_texts(options, first.tokenizer, *std::ranges::max_element(lengths));
  Json json = {{"architecture", architecture_of(first.model->config())},
               {"texts", texts.size()},
               {"tokens_of_a_text", texts.front().size()},
               {"ropes", Json::array()}};
  std::vector<RopeColumn> columns;
  for (std::size_t i = 0; i < options.ropes.size(); ++i) {
    const TextModel text = i == 0 ? std::move(first) : open_model_to_evaluate(options, i);
    const Config& config = text.model->config();
    RopeColumn column{.label = rope_label(options.ropes[i], config),
                      .rope = config.rope_parameters.empty()
                                  ? Json::object()
                                  : internal::parse_json(config.rope_parameters, "rope")};
    Json scores = Json::array();
    for (const std::int64_t length : lengths) {
      column.scores.push_back(score_at(length, options, text, texts));
      scores.push_back(score_json(length, column.scores.back()));
    }
    json["ropes"].push_back(
        {{"name", column.label}, {"rope_parameters", column.rope}, {"lengths", scores}});
    columns.push_back(std::move(column));
  }
  if (options.json) return print_json(json);
  console::print_out(fmt::format("{} texts of {} tokens; loss in nats per token\n\n", texts.size(),
                                 texts.front().size()));
  print_columns(lengths, columns);
}

void add_language_options(CLI::App& verb, EvaluateOptions& options) {
  verb.add_option("--rope", options.ropes,
                  std::string(kRopeHelp) +
                      "; model: its own. Several: one table of the losses of a language model")
      ->type_name("JSON")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_context_option(verb, options.text.rope);
  verb.add_option("--lengths", options.lengths, "Tokens of a row, with [CLS] and [SEP]: 128,512")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(2, 1 << 24));
  verb.add_option("--train-length", options.train_length,
                  "Without --lengths: a quarter of this up to 8 times; else of the model's "
                  "max_position_embeddings")
      ->type_name("N")
      ->check(CLI::Range(8, 1 << 20));
  verb.add_option("--tokens", options.tokens, "Maximum number of tokens read")->type_name("N");
  verb.add_option("--texts", options.texts,
                  "long: documents that fill the longest row; joined: all, concatenated")
      ->type_name("KIND")
      ->check(CLI::IsMember({"long", "joined"}));
  verb.add_option("--framing", options.framing, "Around each row: cls-sep, sep or none")
      ->type_name("KIND")
      ->check(CLI::IsMember({"cls-sep", "sep", "none"}));
  verb.add_option("--mask-rate", options.mask_rate, "Share of masked words")
      ->type_name("R")
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--mask-unit", options.mask_unit, "word: all tokens of a word together; or token")
      ->type_name("KIND")
      ->check(CLI::IsMember({"word", "token"}));
  verb.add_option("--seed", options.seed, "Random seed of the masks")->type_name("N");
}

}  // namespace rotary::roformer::cli
