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

/// Training examples: of any kind, or the pairs of triples.
ExampleRows rows_of(const Labelled& data);
/// select() and make_folds() for each kind.
Labelled items_of(const Labelled& data, std::span<const std::size_t> items);
std::vector<Fold> folds_of(const Labelled& data, std::size_t folds, std::uint64_t seed);
/// "accuracy"; for classes also "loss" and "macro_f1"; for words also "f1", if their tags mark
/// entities; for questions "exact", "f1" and "loss".
Metrics evaluate(ModelImpl& model, const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
                 const AnswerOptions& options);

/// The metric by which epochs are compared: "f1" if there is one, else "accuracy".
const char* main_metric(const Metrics& metrics);

struct FinetuneOptions {
  std::int64_t epochs = 3;
  /// Examples or pairs per batch; a triple is two pairs.
  std::int64_t rows = 32;
  /// Share of the steps that are warm-up.
  double warmup = 0.1;
  /// How texts are read, in training and evaluation.
  AnswerOptions reading{};
  /// Of the order of the examples.
  std::uint64_t seed = 0;
  /// `steps` and the schedule's `warmup_steps` are computed. `save_every` 0: after each epoch.
  TrainOptions train{};
  /// The best metrics of a run that is resumed; empty for a new one.
  Metrics best_before{};
  /// As in Trainer; may be empty.
  std::function<void(const StepReport&)> on_report{};
  std::function<bool()> on_stop{};
  std::function<void(const std::filesystem::path&)> on_save{};
  /// After each epoch, if there is validation data: step, metrics, and whether they are the best so
  /// far.
  std::function<void(std::int64_t, const Metrics&, bool)> on_epoch{};
};

struct FinetuneOutcome {
  TrainOutcome end{};
  /// Metrics of the best epoch, and of the last one; empty without validation data.
  Metrics best{};
  std::int64_t best_step = 0;
  Metrics last{};
};

/// Trains the model; it is left as of the last epoch, in inference mode. Resumes a run whose folder
/// has a checkpoint. Throws as Trainer does.
FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options);

}  // namespace rotary::roformer
