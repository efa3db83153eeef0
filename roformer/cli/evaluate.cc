// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer evaluate: metrics of a model on data.
#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "console/output.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/evaluate_task.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/data/token_cache.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/language.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

struct EvaluateOptions {
  TextOptions text;
  ComputeOptions compute;
  ExampleOptions examples;
  std::vector<std::string> data;
  std::vector<std::int64_t> lengths;
  std::int64_t train_length = 0;
  std::size_t tokens = 200000;
  std::int64_t batch_tokens = 8192;
  std::string texts = "long";
  std::string framing = "cls-sep";
  double mask_rate = 0.15;
  std::string mask_unit = "word";
  std::uint64_t seed = 0;
  std::string task;
  std::size_t stride = 0;
  std::string predictions;
  bool json = false;
};

constexpr const char* kEvaluateFooter =
    R"(A masked or causal LM predicts the tokens of texts: loss (nats per token), perplexity and
accuracy, for each context length. Every length predicts the same tokens of the same texts, so that
only the context differs. Texts are documents separated by blank lines (--format lines: one per
line; jsonl: the field of --text), or a token cache.

A model for classes or pairs reads a table with a header line (.tsv), or JSON lines (.jsonl):
accuracy, loss, F1, Matthews' correlation, and each class; a model for numbers: the mean squared
error, and Pearson's and Spearman's correlation. Files of GLUE (--format glue) are read as they are.
With --format triples, JSON lines of {"A", "B", "C"}: how often
the nearer document of two has the higher score; models that were not fine-tuned are scored by the
cosine similarity of the documents' vectors.

A model for tokens reads words with their classes (columns, or lines of {"tokens", "labels"}):
accuracy, and precision, recall and F1 of the entities that tags such as B-PER I-PER mark. A model
for answers reads lines of {"question", "context", "answer", "answer_start"}: exact match and F1; a
context longer than --max-length is read in windows.

Examples:
  roformer evaluate model/ held_out.txt --lengths 128,512,2048
  roformer evaluate model/ held_out.txt --train-length 512      from a quarter of it up to 8 times
  roformer evaluate tuned/ test.tsv --json
  roformer evaluate tuned/ GLUE/MRPC/dev.tsv --format glue
  roformer evaluate tuned/ scm.jsonl --format triples --max-length 1024)";

using internal::Json;

// ---- Language models ----------------------------------------------------------------------------

std::vector<std::int64_t> lengths_of(const EvaluateOptions& options, const Config& config) {
  if (!options.lengths.empty()) return options.lengths;
  const std::int64_t trained =
      options.train_length > 0 ? options.train_length : config.max_position_embeddings;
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

Json score_json(const LanguageScore& score) {
  return {{"length", score.length},
          {"tokens", score.tokens},
          {"loss", score.loss},
          {"perplexity", score.perplexity()},
          {"accuracy", score.accuracy}};
}

void evaluate_language(const EvaluateOptions& options, const TextModel& text) {
  const std::vector<std::int64_t> lengths = lengths_of(options, text.model->config());
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const auto texts = read_texts(options, text.tokenizer, longest);
  Json json = {{"architecture", architecture_of(text.model->config().task)},
               {"texts", texts.size()},
               {"tokens_of_a_text", texts.front().size()},
               {"lengths", Json::array()}};
  if (!options.json) {
    console::print_out(fmt::format("{} texts of {} tokens\n\n{:>7} {:>9} {:>8} {:>11} {:>9}\n",
                                   texts.size(), texts.front().size(), "length", "tokens", "loss",
                                   "perplexity", "accuracy"));
  }
  for (const std::int64_t length : lengths) {
    const LanguageScore score = score_language(*text.model, text.tokenizer->vocabulary(), texts,
                                               {.length = length,
                                                .framing = framing_of(options),
                                                .masking = masking_of(options),
                                                .seed = options.seed,
                                                .batch_tokens = options.batch_tokens});
    json["lengths"].push_back(score_json(score));
    if (options.json) continue;
    console::print_out(fmt::format("{:>7} {:>9} {:>8.4f} {:>11.3f} {:>7.2f} %\n", length,
                                   score.tokens, score.loss, score.perplexity(),
                                   100 * score.accuracy));
  }
  if (options.json) print_json(json);
}

// ---- Labelled data ------------------------------------------------------------------------------

TaskEvaluation task_evaluation(const EvaluateOptions& options, const Config& config) {
  const std::size_t length = options.text.max_length == 0 ? 512 : options.text.max_length;
  TaskEvaluation task{.data = options.data.front(),
                      .examples = options.examples,
                      .reading = {.max_length = length,
                                  .pair_types = pair_types_of(options.examples),
                                  .rows = std::max<std::int64_t>(
                                      1, options.batch_tokens / static_cast<std::int64_t>(length)),
                                  .stride = options.stride},
                      .predictions = options.predictions,
                      .json = options.json};
  if (predicts_number(config)) task.examples.columns.label_kind = LabelKind::kNumber;
  if (options.examples.format == "glue" || !options.task.empty()) {
    task.examples.glue = glue_task_of(options.task, task.data);
  }
  return task;
}

void evaluate(const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Device device = device_of(options.compute);
  const TextModel text = open_text_model(options.text);
  text.model->to(device);
  text.model->set_compute_type(type_of(options.compute));
  const Task task = text.model->config().task;
  const bool is_language = task == Task::kMaskedLm || task == Task::kCausalLm;
  if (is_language && !are_triples(options.examples)) return evaluate_language(options, text);
  evaluate_task(task_evaluation(options, text.model->config()), text);
}

void add_language_options(CLI::App& verb, EvaluateOptions& options) {
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

}  // namespace

void add_evaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* verb = app.add_subcommand("evaluate", "Compute metrics of a model");
  verb->footer(kEvaluateFooter);
  add_text_options(*verb, options->text);
  verb->add_option("DATA", options->data, "Texts, a token cache, or labelled examples")
      ->required()
      ->type_name("");
  verb->add_option("--format", options->examples.format,
                   "text, lines, jsonl, tsv, conll, triples or glue; default: by the model and the "
                   "file's name")
      ->type_name("KIND")
      ->check(CLI::IsMember({"text", "lines", "jsonl", "tsv", "conll", "triples", "glue"}));
  verb->add_option("--task", options->task,
                   "The task of a file of GLUE: cola, mrpc, rte, sst-2 or sts-b; default with "
                   "--format glue: by its folder or its first line")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cola", "mrpc", "rte", "sst-2", "sts-b"}));
  add_example_options(*verb, options->examples);
  verb->add_option("--predictions", options->predictions,
                   "Write the predicted class or number of each text or pair to this table")
      ->type_name("FILE");
  verb->add_option("--stride", options->stride,
                   "Of questions: tokens between the windows that read a long context; default: "
                   "half a window")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24));
  add_language_options(*verb, *options);
  verb->add_option("--batch-tokens", options->batch_tokens, "Tokens per batch")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  add_compute_options(*verb, options->compute);
  verb->add_flag("--json", options->json, "Print one line of JSON");
  verb->callback([options] { evaluate(*options); });
}

}  // namespace rotary::roformer::cli
