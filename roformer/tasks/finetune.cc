// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/finetune.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "roformer/data/example_batches.h"
#include "roformer/tasks/token_answers.h"

namespace rotary::roformer {
namespace {

TrainOptions train_options(const FinetuneOptions& options, std::int64_t epoch_steps) {
  TrainOptions train = options.train;
  train.steps = options.epochs * epoch_steps;
  train.schedule.warmup_steps = std::llround(options.warmup * static_cast<double>(train.steps));
  if (train.save_every == 0 && !train.folder.empty()) train.save_every = epoch_steps;
  return train;
}

}  // namespace

ExampleRows rows_of(const Labelled& data) {
  return std::visit(
      [](const auto& set) {
        using Set = std::decay_t<decltype(set)>;
        if constexpr (std::is_same_v<Set, std::vector<Triple>>) {
          return rows_of(std::make_shared<const ExampleSet>(pairs_of(set)));
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
  Metrics metrics;
  ClassScore score;
  if (const auto* tags = std::get_if<TagSet>(&data)) {
    const TagScore words =
        score_tags(model, std::make_shared<const TagSet>(*tags), std::move(tokenizer), options);
    if (words.entities > 0) metrics["f1"] = words.f1();
    score = words.words;
  } else {
    score = score_classes(model, std::make_shared<const ExampleSet>(std::get<ExampleSet>(data)),
                          std::move(tokenizer), options);
  }
  metrics["accuracy"] = score.accuracy();
  metrics["loss"] = score.loss;
  metrics["macro_f1"] = score.macro_f1();
  return metrics;
}

const char* main_metric(const Metrics& metrics) {
  return metrics.contains("f1") ? "f1" : "accuracy";
}

FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options) {
  ExampleRows examples = rows_of(train);
  const std::int64_t step_rows = options.rows * options.train.accumulate;
  const std::int64_t epoch_steps =
      (static_cast<std::int64_t>(examples.count) + step_rows - 1) / step_rows;
  ExampleBatches batches(std::move(examples), tokenizer,
                         {.rows = options.rows,
                          .max_length = options.reading.max_length,
                          .pair_types = options.reading.pair_types,
                          .seed = options.seed,
                          .epochs = 0});
  Trainer trainer(model, train_options(options, epoch_steps));
  if (options.on_report) trainer.on_report(options.on_report);
  if (options.on_stop) trainer.on_stop(options.on_stop);
  if (options.on_save) trainer.on_save(options.on_save);
  FinetuneOutcome outcome{.best = options.best_before};
  if (valid != nullptr) {
    trainer.on_evaluation(
        [&] {
          outcome.last = evaluate(*model, *valid, tokenizer, options.reading);
          const char* metric = main_metric(outcome.last);
          const bool is_best =
              !outcome.best.contains(metric) || outcome.last.at(metric) > outcome.best.at(metric);
          if (is_best) {
            outcome.best = outcome.last;
            outcome.best_step = trainer.step();
          }
          if (options.on_epoch) options.on_epoch(trainer.step(), outcome.last, is_best);
          return outcome.last;
        },
        epoch_steps);
  }
  trainer.resume();
  outcome.end = trainer.run(source_of(batches));
  model->eval();
  return outcome;
}

}  // namespace rotary::roformer
