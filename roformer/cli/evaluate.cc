// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer evaluate: metrics of a model on data.
#include "roformer/cli/evaluate.h"

#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "console/output.h"
#include "explain/text_layout.h"
#include "json/json.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/tasks/answers.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/token_answers.h"

namespace rotary::roformer::cli {
namespace {

constexpr const char* kEvaluateFooter =
    R"(A masked or causal LM predicts the tokens of texts: loss (nats per token), perplexity and
accuracy, for each context length. Every length predicts the same tokens of the same texts, so that
only the context differs. Texts are documents separated by blank lines (--format lines: one per
line; jsonl: the field of --text), or a token cache. Several --rope compare ways to stretch the
model's context: one table of losses.

A model for classes or pairs reads a table with a header line (.tsv), or JSON lines (.jsonl):
accuracy, loss, F1, and each class. With --format triples, JSON lines of {"A", "B", "C"}: how often
the nearer document of two has the higher score; models that were not fine-tuned are scored by the
cosine similarity of the documents' vectors.

A model for tokens reads words with their classes (columns, or lines of {"tokens", "labels"}):
accuracy, and precision, recall and F1 of the entities that tags such as B-PER I-PER mark. A model
for answers reads lines of {"question", "context", "answer", "answer_start"}: exact match and F1.

Examples:
  roformer evaluate model/ held_out.txt --lengths 128,512,2048
  roformer evaluate model/ held_out.txt --train-length 512      from a quarter of it up to 8 times
  roformer evaluate model/ held_out.txt --lengths 512,2048 --rope model \
      --rope '{"rope_type": "yarn", "factor": 4}' --rope '{"rope_type": "dynamic", "factor": 1}'
  roformer evaluate tuned/ test.tsv --json
  roformer evaluate tuned/ scm.jsonl --format triples --max-length 1024)";

using internal::Json;

// ---- Classes and triples ------------------------------------------------------------------------

AnswerOptions answer_options(const EvaluateOptions& options) {
  const std::size_t length = options.text.max_length == 0 ? 512 : options.text.max_length;
  return {
      .max_length = length,
      .pair_types = pair_types_of(options.examples),
      .rows = std::max<std::int64_t>(1, options.batch_tokens / static_cast<std::int64_t>(length))};
}

void evaluate_classes(const EvaluateOptions& options, const TextModel& text) {
  const auto names = label_names(text.model->config());
  const auto set = std::make_shared<const ExampleSet>(
      read_examples(options.data.front(), options.examples, names));
  const ClassScore score = score_classes(*text.model, set, text.tokenizer, answer_options(options));
  Json json = {{"examples", score.examples()},
               {"accuracy", score.accuracy()},
               {"loss", score.loss},
               {"macro_f1", score.macro_f1()},
               {"classes", Json::array()}};
  std::string table = fmt::format(
      "{} examples: accuracy {:.2f} %, loss {:.4f}, macro F1 {:.4f}\n\n"
      "{:>9} {:>9} {:>9}  class\n",
      score.examples(), 100 * score.accuracy(), score.loss, score.macro_f1(), "examples",
      "precision", "recall");
  for (std::size_t i = 0; i < set->labels.size(); ++i) {
    std::int64_t examples = 0;
    for (const std::int64_t count : score.table[i]) examples += count;
    json["classes"].push_back({{"label", set->labels[i]},
                               {"examples", examples},
                               {"precision", score.precision(i)},
                               {"recall", score.recall(i)}});
    table += fmt::format("{:>9} {:>9.4f} {:>9.4f}  {}\n", examples, score.precision(i),
                         score.recall(i), explain::printable(set->labels[i]));
  }
  if (options.json) return print_json(json);
  console::print_out(table);
}

void evaluate_tags(const EvaluateOptions& options, const TextModel& text) {
  const auto set = std::make_shared<const TagSet>(
      read_tags(options.data.front(), options.examples, label_names(text.model->config())));
  const TagScore score = score_tags(*text.model, set, text.tokenizer, answer_options(options));
  if (options.json) {
    return print_json({{"words", score.words.examples()},
                       {"unread", score.unread},
                       {"accuracy", score.words.accuracy()},
                       {"loss", score.words.loss},
                       {"entities", score.entities},
                       {"precision", score.precision()},
                       {"recall", score.recall()},
                       {"f1", score.f1()}});
  }
  std::string report =
      fmt::format("{} words: accuracy {:.2f} %, loss {:.4f}\n", score.words.examples(),
                  100 * score.words.accuracy(), score.words.loss);
  if (score.unread > 0) report += fmt::format("{} words were cut off\n", score.unread);
  if (score.entities > 0) {
    report += fmt::format("{} entities: precision {:.4f}, recall {:.4f}, F1 {:.4f}\n",
                          score.entities, score.precision(), score.recall(), score.f1());
  }
  console::print_out(report);
}

void evaluate_answers(const EvaluateOptions& options, const TextModel& text) {
  const auto set = std::make_shared<const QuestionSet>(read_questions(options.data.front()));
  const AnswerScore score =
      score_answers(*text.model, set, text.tokenizer, answer_options(options));
  if (options.json) {
    return print_json({{"questions", score.questions},
                       {"exact", score.exact},
                       {"f1", score.f1},
                       {"loss", score.loss}});
  }
  console::print_out(fmt::format("{} questions: exact {:.2f} %, F1 {:.4f}, loss {:.4f}\n",
                                 score.questions, 100 * score.exact, score.f1, score.loss));
}

void evaluate_triples(const EvaluateOptions& options, const TextModel& text) {
  const auto triples = read_triples(options.data.front());
  const TripleScore score =
      score_triples(*text.model, triples, text.tokenizer, answer_options(options));
  if (options.json) {
    return print_json(
        {{"triples", score.triples}, {"right", score.right}, {"accuracy", score.accuracy()}});
  }
  console::print_out(
      fmt::format("{} triples: accuracy {:.2f} %\n", score.triples, 100 * score.accuracy()));
}

void evaluate(const EvaluateOptions& options) {
  const at::NoGradGuard no_grad;
  TextModel text = open_model_to_evaluate(options, 0);
  const Task task = text.model->config().task;
  if (options.ropes.size() > 1) {
    if (task != Task::kMaskedLm && task != Task::kCausalLm) {
      throw UsageError("several --rope are for language models, not for " +
                       std::string(architecture_of(task)));
    }
    return compare_ropes(options, std::move(text));
  }
  if (are_triples(options.examples)) return evaluate_triples(options, text);
  switch (text.model->config().task) {
    case Task::kMaskedLm:
    case Task::kCausalLm:
      return evaluate_language(options, text);
    case Task::kSequenceClassification:
    case Task::kPairMatching:
      return evaluate_classes(options, text);
    case Task::kTokenClassification:
      return evaluate_tags(options, text);
    case Task::kQuestionAnswering:
      return evaluate_answers(options, text);
    case Task::kEncoder:
      throw UsageError(options.text.checkpoint + " has no head to evaluate: " +
                       std::string(architecture_of(text.model->config())));
  }
}

}  // namespace

TextModel open_model_to_evaluate(const EvaluateOptions& options, std::size_t i) {
  const at::Device device = device_of(options.compute);
  TextOptions own = options.text;
  if (i < options.ropes.size() && options.ropes[i] != "model") own.rope.rope = options.ropes[i];
  TextModel text = open_text_model(own);
  text.model->to(device);
  text.model->set_compute_type(type_of(options.compute));
  return text;
}

void add_evaluate(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App* verb = app.add_subcommand("evaluate", "Compute metrics of a model");
  verb->footer(kEvaluateFooter);
  add_text_options(*verb, options->text);
  verb->add_option("DATA", options->data, "Texts, a token cache, or labelled examples")
      ->required()
      ->type_name("");
  verb->add_option("--format", options->examples.format,
                   "text, lines, jsonl, tsv, conll or triples; default: by the model and the "
                   "file's name")
      ->type_name("KIND")
      ->check(CLI::IsMember({"text", "lines", "jsonl", "tsv", "conll", "triples"}));
  add_example_options(*verb, options->examples);
  add_language_options(*verb, *options);
  verb->add_option("--batch-tokens", options->batch_tokens, "Tokens per batch")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  add_compute_options(*verb, options->compute);
  verb->add_flag("--json", options->json, "Print one line of JSON");
  verb->callback([options] { evaluate(*options); });
}

}  // namespace rotary::roformer::cli
