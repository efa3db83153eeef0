// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// From a pretrained model to one that answers a task.
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

/// What a task gives to learn from, or to be judged by.
using Labelled = std::variant<ExampleSet, std::vector<Triple>, TagSet, QuestionSet>;

/// What is learnt from: examples of whatever kind, or the pairs of triples.
ExampleRows rows_of(const Labelled& data);
/// select() and make_folds() of whatever it is.
Labelled items_of(const Labelled& data, std::span<const std::size_t> items);
std::vector<Fold> folds_of(const Labelled& data, std::size_t folds, std::uint64_t seed);
/// "accuracy", and of classes "loss" and "macro_f1"; of words also "f1", where their tags mark
/// entities; of questions "exact", "f1" and "loss".
Measures judge(ModelImpl& model, const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
               const AnswerOptions& options);

/// The name of the one by which epochs are compared: "f1" where there is one, else "accuracy".
const char* chief_measure(const Measures& measures);

struct FinetuneOptions {
  std::int64_t epochs = 3;
  /// Examples a batch, or pairs; a triple is two of them.
  std::int64_t rows = 32;
  /// Share of the steps in which the learning rate rises.
  double warmup = 0.1;
  /// How texts are read, in training as when the model is judged.
  AnswerOptions reading{};
  /// Of the order of the examples.
  std::uint64_t seed = 0;
  /// `steps` and the schedule's `warmup_steps` are worked out. `save_every` 0: after each epoch.
  TrainOptions train{};
  /// What a run that is continued had reached; empty where it begins.
  Measures best_before{};
  /// As Trainer has them; may be empty.
  std::function<void(const StepReport&)> on_report{};
  std::function<bool()> on_stop{};
  std::function<void(const std::filesystem::path&)> on_save{};
  /// After each epoch, where there is something to be judged by: at which step, how good, and
  /// whether that is the best so far.
  std::function<void(std::int64_t, const Measures&, bool)> on_epoch{};
};

struct FinetuneOutcome {
  TrainOutcome end{};
  /// Of the epoch with the highest chief measure, and of the last one; empty without anything to be
  /// judged by.
  Measures best{};
  std::int64_t best_step = 0;
  Measures last{};
};

/// Trains the model, which is that of the last epoch afterwards and in inference mode. Continues a
/// run whose folder has a checkpoint. Throws what Trainer throws.
FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options);

}  // namespace rotary::roformer
