// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/tasks/finetune.h"

#include <cmath>
#include <utility>

#include "roformer/data/example_batches.h"

namespace rotary::roformer {
namespace {

TrainOptions train_options(const FinetuneOptions& options, std::int64_t steps) {
  TrainOptions train = options.train;
  train.steps = steps;
  train.schedule.warmup_steps = std::llround(options.warmup * static_cast<double>(steps));
  return train;
}

}  // namespace

ExampleSet examples_of(const Labelled& data) {
  if (const auto* set = std::get_if<ExampleSet>(&data)) return *set;
  return pairs_of(std::get<std::vector<Triple>>(data));
}

Labelled items_of(const Labelled& data, std::span<const std::size_t> items) {
  return std::visit([&](const auto& all) -> Labelled { return select(all, items); }, data);
}

std::vector<Fold> folds_of(const Labelled& data, std::size_t folds, std::uint64_t seed) {
  return std::visit([&](const auto& all) { return make_folds(all, folds, seed); }, data);
}

Measures judge(ModelImpl& model, const Labelled& data, std::shared_ptr<const Tokenizer> tokenizer,
               const AnswerOptions& options) {
  if (const auto* triples = std::get_if<std::vector<Triple>>(&data)) {
    return {{"accuracy", score_triples(model, *triples, std::move(tokenizer), options).accuracy()}};
  }
  auto set = std::make_shared<const ExampleSet>(std::get<ExampleSet>(data));
  const ClassScore score = score_classes(model, std::move(set), std::move(tokenizer), options);
  return {{"accuracy", score.accuracy()}, {"loss", score.loss}, {"macro_f1", score.macro_f1()}};
}

FinetuneOutcome finetune(Model model, std::shared_ptr<const Tokenizer> tokenizer,
                         const Labelled& train, const Labelled* valid,
                         const FinetuneOptions& options) {
  auto examples = std::make_shared<const ExampleSet>(examples_of(train));
  const std::int64_t step_rows = options.rows * options.train.accumulate;
  const std::int64_t epoch_steps =
      (static_cast<std::int64_t>(examples->examples.size()) + step_rows - 1) / step_rows;
  ExampleBatches batches(std::move(examples), tokenizer,
                         {.rows = options.rows,
                          .max_length = options.reading.max_length,
                          .pair_types = options.reading.pair_types,
                          .seed = options.seed,
                          .epochs = 0});
  Trainer trainer(model, train_options(options, options.epochs * epoch_steps));
  if (options.on_report) trainer.on_report(options.on_report);
  if (options.on_stop) trainer.on_stop(options.on_stop);
  if (options.on_save) trainer.on_save(options.on_save);
  FinetuneOutcome outcome{.best = options.best_before};
  if (valid != nullptr) {
    trainer.on_evaluation(
        [&] {
          outcome.last = judge(*model, *valid, tokenizer, options.reading);
          const bool is_best =
              outcome.best.empty() || outcome.last.at("accuracy") > outcome.best.at("accuracy");
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
