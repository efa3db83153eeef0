// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/finetune.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "roformer/data/example_batches.h"
#include "roformer/data/question_windows.h"
#include "roformer/tasks/token_answers.h"
#include "roformer/train/ranks.h"
#include "support/message.h"

namespace rotary::roformer {
namespace {

TrainOptions train_options(const FinetuneOptions& options, std::int64_t epoch_steps) {
  TrainOptions train = options.train;
  train.steps = options.epochs * epoch_steps;
  train.schedule.warmup_steps = std::llround(options.warmup * static_cast<double>(train.steps));
  if (train.save_every == 0 && !train.folder.empty()) train.save_every = epoch_steps;
  return train;
}

/// Of texts or words.
Metrics metrics_of(const ClassScore& score) {
  return {{"accuracy", score.accuracy()}, {"loss", score.loss}, {"macro_f1", score.macro_f1()}};
}

/// Throws std::invalid_argument for a metric that such data cannot have.
void check_metric(const std::string& metric, const Labelled& data) {
  const std::vector<std::string> known = metric_names(data);
  if (metric.empty() || std::ranges::find(known, metric) != known.end()) return;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  internal::reject("[finetune] metric must be one of ", list, ", got ", metric);
}

}  // namespace

ExampleRows rows_of(const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
                    const AnswerOptions& options) {
  return std::visit(
      [&](const auto& set) {
        using Set = std::decay_t<decltype(set)>;
        if constexpr (std::is_same_v<Set, std::vector<Triple>>) {
          return rows_of(std::make_shared<const ExampleSet>(pairs_of(set)));
        } else if constexpr (std::is_same_v<Set, QuestionSet>) {
          return rows_of(std::make_shared<const QuestionWindows>(
              std::make_shared<const Set>(set), tokenizer,
              WindowOptions{.max_length = options.max_length, .stride = options.stride}));
        } else {
          return rows_of(std::make_shared<const Set>(set));
        }
      },
      data);
}

Labelled items_of(const Labelled& data, std::span<const std::size_t> items) {
  return std::visit([&](const auto& all) -> Labelled { return select(all, items); }, data);
}

std::vector<Fold> folds_of(const Labelled& data, std::size_t folds, std::uint64_t seed) {
  return std::visit([&](const auto& all) { return make_folds(all, folds, seed); }, data);
}

Metrics evaluate(ModelImpl& model, const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
                 const AnswerOptions& options) {
  if (const auto* triples = std::get_if<std::vector<Triple>>(&data)) {
    return {{"accuracy", score_triples(model, *triples, std::move(tokenizer), options).accuracy()}};
  }
  if (const auto* questions = std::get_if<QuestionSet>(&data)) {
    const AnswerScore score = score_answers(model, std::make_shared<const QuestionSet>(*questions),
                                            std::move(tokenizer), options);
    return {{"exact", score.exact}, {"f1", score.f1}, {"loss", score.loss}};
  }
  if (const auto* tags = std::get_if<TagSet>(&data)) {
    const TagScore score =
        score_tags(model, std::make_shared<const TagSet>(*tags), std::move(tokenizer), options);
    Metrics metrics = metrics_of(score.words);
    if (score.entities > 0) metrics["f1"] = score.f1();
    return metrics;
  }
  const auto set = std::make_shared<const ExampleSet>(std::get<ExampleSet>(data));
  if (set->label_kind == LabelKind::kNumber) {
    const NumberScore score = score_numbers(model, set, std::move(tokenizer), options);
    return {{"loss", score.loss}, {"pearson", score.pearson}, {"spearman", score.spearman}};
  }
  const ClassScore score = score_classes(model, set, std::move(tokenizer), options);
  Metrics metrics = metrics_of(score);
  metrics["matthews"] = score.matthews();
  if (score.table.size() == 2) metrics["f1"] = score.f1(1);
  return metrics;
}

std::vector<std::string> metric_names(const Labelled& data) {
  if (std::holds_alternative<std::vector<Triple>>(data)) return {"accuracy"};
  if (std::holds_alternative<QuestionSet>(data)) return {"exact", "f1", "loss"};
  if (std::holds_alternative<TagSet>(data)) return {"accuracy", "f1", "loss", "macro_f1"};
  const auto& set = std::get<ExampleSet>(data);
  if (set.label_kind == LabelKind::kNumber) return {"loss", "pearson", "spearman"};
  std::vector<std::string> names = {"accuracy", "loss", "macro_f1", "matthews"};
  if (set.labels.size() == 2) names.insert(names.begin() + 1, "f1");
  return names;
}

std::string main_metric(const Labelled& data, const Metrics& metrics) {
  const bool of_spans =
      std::holds_alternative<QuestionSet>(data) || std::holds_alternative<TagSet>(data);
  if (of_spans && metrics.contains("f1")) return "f1";
  return metrics.contains("spearman") ? "spearman" : "accuracy";
}

bool is_better(const std::string& metric, double value, double than) noexcept {
  return metric == "loss" ? value < than : value > than;
}

FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options) {
  const Ranks* ranks = options.ranks.get();
  const std::int64_t num_ranks = ranks == nullptr ? 1 : ranks->size();
  if (options.rows % num_ranks != 0) {
    internal::reject("[finetune] a batch of ", options.rows, " rows is not a multiple of ",
                     num_ranks, " processes");
  }
  if (valid != nullptr) check_metric(options.metric, *valid);
  ExampleRows examples = rows_of(train, tokenizer, options.reading);
  const std::int64_t step_rows = options.rows * options.train.accumulate;
  const std::int64_t epoch_steps =
      (static_cast<std::int64_t>(examples.count) + step_rows - 1) / step_rows;
  ExampleBatches batches(std::move(examples), tokenizer,
                         {.rows = options.rows / num_ranks,
                          .max_length = options.reading.max_length,
                          .pair_types = options.reading.pair_types,
                          .seed = options.seed,
                          .epochs = 0,
                          .rank = static_cast<std::uint64_t>(ranks == nullptr ? 0 : ranks->rank()),
                          .num_ranks = static_cast<std::uint64_t>(num_ranks)});
  Trainer trainer(model, train_options(options, epoch_steps), options.ranks);
  if (options.on_report) trainer.on_report(options.on_report);
  if (options.on_stop) trainer.on_stop(options.on_stop);
  if (options.on_save) trainer.on_save(options.on_save);
  FinetuneOutcome outcome{.best = options.best_before};
  const bool evaluates = valid != nullptr && (ranks == nullptr || ranks->rank() == 0);
  const auto evaluation = [&] {
    outcome.last = evaluate(*model, *valid, tokenizer, options.reading);
    const std::string metric =
        options.metric.empty() ? main_metric(*valid, outcome.last) : options.metric;
    if (!outcome.last.contains(metric)) {
      internal::reject("[finetune] the validation data has no ", metric);
    }
    const bool is_best = !outcome.best.contains(metric) ||
                         is_better(metric, outcome.last.at(metric), outcome.best.at(metric));
    if (is_best) {
      outcome.best = outcome.last;
      outcome.best_step = trainer.step();
    }
    if (options.on_epoch) options.on_epoch(trainer.step(), outcome.last, is_best);
    return outcome.last;
  };
  // The other ranks wait for rank 0 in the next step.
  if (evaluates) trainer.on_evaluation(evaluation, epoch_steps);
  trainer.resume();
  outcome.end = trainer.run(source_of(batches));
  model->eval();
  return outcome;
}

}  // namespace rotary::roformer
