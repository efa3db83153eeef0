// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/evaluate_task.h"

#include <fmt/core.h>

#include <memory>

#include "console/output.h"
#include "explain/text_layout.h"
#include "json/json.h"
#include "roformer/checkpoint/tensor_files.h"
#include "roformer/cli/commands.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/predictions.h"
#include "roformer/tasks/token_answers.h"

namespace rotary::roformer::cli {
namespace {

using internal::Json;
using ExamplesPtr = std::shared_ptr<const ExampleSet>;

/// Of two classes, the second is the positive one of "f1".
void evaluate_classes(const TaskEvaluation& evaluation, const TextModel& text,
                      const ExamplesPtr& set) {
  const ClassScore score = score_classes(*text.model, set, text.tokenizer, evaluation.reading);
  const bool is_binary = score.table.size() == 2;
  Json json = {{"examples", score.examples()}, {"accuracy", score.accuracy()},
               {"loss", score.loss},           {"macro_f1", score.macro_f1()},
               {"matthews", score.matthews()}, {"classes", Json::array()}};
  if (is_binary) json["f1"] = score.f1(1);
  std::string table = fmt::format(
      "{} examples: accuracy {:.2f} %, loss {:.4f}, macro F1 {:.4f}, Matthews {:.4f}{}\n\n"
      "{:>9} {:>9} {:>9} {:>9}  class\n",
      score.examples(), 100 * score.accuracy(), score.loss, score.macro_f1(), score.matthews(),
      is_binary ? fmt::format(", F1 {:.4f}", score.f1(1)) : "", "examples", "precision", "recall",
      "F1");
  for (std::size_t i = 0; i < set->labels.size(); ++i) {
    std::int64_t examples = 0;
    for (const std::int64_t count : score.table[i]) examples += count;
    json["classes"].push_back({{"label", set->labels[i]},
                               {"examples", examples},
                               {"precision", score.precision(i)},
                               {"recall", score.recall(i)},
                               {"f1", score.f1(i)}});
    table += fmt::format("{:>9} {:>9.4f} {:>9.4f} {:>9.4f}  {}\n", examples, score.precision(i),
                         score.recall(i), score.f1(i), explain::printable(set->labels[i]));
  }
  if (evaluation.json) return print_json(json);
  console::print_out(table);
}

void evaluate_numbers(const TaskEvaluation& evaluation, const TextModel& text,
                      const ExamplesPtr& set) {
  const NumberScore score = score_numbers(*text.model, set, text.tokenizer, evaluation.reading);
  if (evaluation.json) {
    return print_json({{"examples", score.examples},
                       {"loss", score.loss},
                       {"pearson", score.pearson},
                       {"spearman", score.spearman}});
  }
  console::print_out(fmt::format("{} examples: loss {:.4f}, Pearson {:.4f}, Spearman {:.4f}\n",
                                 score.examples, score.loss, score.pearson, score.spearman));
}

void evaluate_examples(const TaskEvaluation& evaluation, const TextModel& text) {
  const Config& config = text.model->config();
  const auto set = std::make_shared<const ExampleSet>(
      read_examples(evaluation.data, evaluation.examples, label_names(config)));
  const bool is_labelled = set->label_kind != LabelKind::kNone;
  if (!is_labelled && evaluation.predictions.empty()) {
    throw UsageError(evaluation.data + " has no labels: name a file for the --predictions");
  }
  if (!evaluation.predictions.empty()) {
    const auto predictions = predict(*text.model, set, text.tokenizer, evaluation.reading);
    write_text(evaluation.predictions, predictions_table(predictions));
    if (!is_labelled) {
      if (evaluation.json) return print_json({{"examples", predictions.size()}});
      return console::print_out(fmt::format("{} examples: predictions in {}\n", predictions.size(),
                                            evaluation.predictions));
    }
  }
  if (predicts_number(config) != (set->label_kind == LabelKind::kNumber)) {
    throw UsageError(fmt::format("the model predicts {}, but {} has {}",
                                 predicts_number(config) ? "a number" : "classes", evaluation.data,
                                 predicts_number(config) ? "classes" : "numbers"));
  }
  if (predicts_number(config)) return evaluate_numbers(evaluation, text, set);
  evaluate_classes(evaluation, text, set);
}

void evaluate_tags(const TaskEvaluation& evaluation, const TextModel& text) {
  const auto set = std::make_shared<const TagSet>(
      read_tags(evaluation.data, evaluation.examples, label_names(text.model->config())));
  const TagScore score = score_tags(*text.model, set, text.tokenizer, evaluation.reading);
  if (evaluation.json) {
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

void evaluate_answers(const TaskEvaluation& evaluation, const TextModel& text) {
  const auto set = std::make_shared<const QuestionSet>(read_questions(evaluation.data));
  const AnswerScore score = score_answers(*text.model, set, text.tokenizer, evaluation.reading);
  if (evaluation.json) {
    return print_json({{"questions", score.questions},
                       {"exact", score.exact},
                       {"f1", score.f1},
                       {"loss", score.loss}});
  }
  console::print_out(fmt::format("{} questions: exact {:.2f} %, F1 {:.4f}, loss {:.4f}\n",
                                 score.questions, 100 * score.exact, score.f1, score.loss));
}

void evaluate_triples(const TaskEvaluation& evaluation, const TextModel& text) {
  const auto triples = read_triples(evaluation.data);
  const TripleScore score = score_triples(*text.model, triples, text.tokenizer, evaluation.reading);
  if (evaluation.json) {
    return print_json(
        {{"triples", score.triples}, {"right", score.right}, {"accuracy", score.accuracy()}});
  }
  console::print_out(
      fmt::format("{} triples: accuracy {:.2f} %\n", score.triples, 100 * score.accuracy()));
}

}  // namespace

void evaluate_task(const TaskEvaluation& evaluation, const TextModel& text) {
  if (are_triples(evaluation.examples)) return evaluate_triples(evaluation, text);
  const Task task = text.model->config().task;
  const bool predicts = task == Task::kSequenceClassification || task == Task::kPairMatching;
  if (!evaluation.predictions.empty() && !predicts) {
    throw UsageError("--predictions are those of texts or pairs, not of a " +
                     std::string(architecture_of(task)));
  }
  if (predicts) return evaluate_examples(evaluation, text);
  if (task == Task::kTokenClassification) return evaluate_tags(evaluation, text);
  if (task == Task::kQuestionAnswering) return evaluate_answers(evaluation, text);
  throw UsageError("the model has no head to evaluate: " + std::string(architecture_of(task)));
}

}  // namespace rotary::roformer::cli
