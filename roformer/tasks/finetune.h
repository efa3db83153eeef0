// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Fine-tuning of a pretrained model for a task.
///
///   namespace rf = rotary::roformer;
///   const rf::Labelled train = rf::read_tsv("train.tsv");
///   const rf::Labelled valid = rf::read_tsv("dev.tsv");
///   rf::Model model = rf::load_model("base", rf::Task::kSequenceClassification).model;
///   rf::FinetuneOutcome end = rf::finetune(model, tokenizer, train, &valid, {.epochs = 3});
///   end.best.at("accuracy");
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "roformer/data/examples.h"
#include "roformer/data/token_examples.h"
#include "roformer/tasks/answers.h"
#include "roformer/tasks/folds.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {

/// Labelled data of a task, for training or evaluation.
using Labelled = std::variant<ExampleSet, std::vector<Triple>, TagSet, QuestionSet>;

/// Training examples: of any kind, or the pairs of triples, or the windows of questions.
ExampleRows rows_of(const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
                    const AnswerOptions& options);
/// select() and make_folds() for each kind.
Labelled items_of(const Labelled& data, std::span<const std::size_t> items);
std::vector<Fold> folds_of(const Labelled& data, std::size_t folds, std::uint64_t seed);
/// Numbers have "loss", "pearson" and "spearman"; classes "accuracy", "loss", "macro_f1",
/// "matthews", and, if there are two, "f1" of the second; words "accuracy", "loss", "macro_f1",
/// and, if their tags mark entities, "f1" of these; questions "exact", "f1" and "loss"; triples
/// "accuracy".
Metrics evaluate(ModelImpl& model, const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
                 const AnswerOptions& options);

/// The names of the metrics that evaluate() may compute for such data.
std::vector<std::string> metric_names(const Labelled& data);
/// The metric of these by which epochs are compared, unless another is chosen: "spearman" of
/// numbers, "f1" of entities and answers, else "accuracy".
std::string main_metric(const Labelled& data, const Metrics& metrics);
/// Whether a value is better than another: a lower loss, a higher value of any other metric.
bool is_better(const std::string& metric, double value, double than) noexcept;

struct FinetuneOptions {
  std::int64_t epochs = 3;
  /// Examples, pairs or windows per batch, over all ranks; a triple is two pairs.
  std::int64_t rows = 32;
  /// Share of the steps that are warm-up.
  double warmup = 0.1;
  /// How texts are read, in training and evaluation.
  AnswerOptions reading{};
  /// Of the order of the examples.
  std::uint64_t seed = 0;
  /// The metric by which epochs are compared; empty: main_metric().
  std::string metric{};
  /// Null for one process. `rows` must be a multiple of their number. Rank 0 alone evaluates.
  std::shared_ptr<Ranks> ranks{};
  /// `steps` and the schedule's `warmup_steps` are computed. `save_every` 0: after each epoch.
  TrainOptions train{};
  /// The best metrics of a run that is resumed; empty for a new one.
  Metrics best_before{};
  /// As in Trainer; may be empty.
  std::function<void(const StepReport&)> on_report{};
  std::function<bool()> on_stop{};
  std::function<void(const std::filesystem::path&)> on_save{};
  /// After each epoch, on rank 0, if there is validation data: step, metrics, and whether they are
  /// the best so far.
  std::function<void(std::int64_t, const Metrics&, bool)> on_epoch{};
};

struct FinetuneOutcome {
  TrainOutcome end{};
  /// Metrics of the best epoch, and of the last one; empty without validation data, and on ranks
  /// other than 0.
  Metrics best{};
  std::int64_t best_step = 0;
  Metrics last{};
};

/// Trains the model; it is left as of the last epoch, in inference mode. Resumes a run whose folder
/// has a checkpoint. Throws as Trainer does, and std::invalid_argument for a metric that the
/// validation data does not have, or rows that the ranks cannot share.
FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options);

}  // namespace rotary::roformer
