// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `roformer`: the experiments of its paper, small. A unit is a masked LM, some of which
// are then fine-tuned on GLUE, or a character LM with attention of linear cost.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "roformer/lab/labs.h"
#include "roformer/lab/roformer_settings.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/text_data.h"
#include "roformer/lab/text_score.h"
#include "roformer/lab/training.h"
#include "roformer/lab/tune_small.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

constexpr std::int64_t kRoformerJobs = 3;
constexpr std::uint64_t kOrderSeed = 5;
/// The part of a unit that is pretraining, where fine-tuning follows.
constexpr double kPretrainingShare = 0.6;

/// Rows of a masked LM that begin with [CLS], which is never masked.
TrainingBatch masked_rows_with_cls(const TextData& data, std::int64_t rows, std::int64_t length,
                                   double rate, std::uint64_t seed, std::int64_t step) {
  const at::Tensor text =
      random_windows(data, rows, length, seed, step).narrow(1, 0, length - 1).contiguous();
  const MaskedTokens masked = mask_rows(text, data, rate, seed, step);
  const std::int64_t cls = data.tokenizer->vocabulary().special().cls;
  const auto with_first = [&](const at::Tensor& tokens, std::int64_t first) {
    return at::cat({at::full({rows, 1}, first, tokens.options()), tokens}, 1);
  };
  TrainingBatch batch;
  batch.inputs.ids = with_first(masked.ids, cls);
  batch.inputs.labels = with_first(masked.labels, kIgnored);
  batch.inputs.logits_at = LogitsAt::kLabels;
  // Every row has one token more before its labels.
  batch.inputs.label_indices =
      masked.indices + masked.indices.div(length - 1, /*rounding_mode=*/"floor") + 1;
  batch.num_labels = masked.indices.numel();
  return batch;
}

class RoformerLab final : public Lab {
 public:
  explicit RoformerLab(const LabOptions& options);

  const Json& settings() const override { return settings_.json(); }
  std::vector<Unit> units() const override;
  std::vector<Row> run(const UnitRun& run) override;
  std::int64_t jobs() const override { return kRoformerJobs; }

 private:
  Config masked_config(const Json& entry) const {
    Config config = model_config({settings_.at("model"), entry}, Task::kMaskedLm, "roformer");
    encoding_rate_of(entry, settings_.at("model"));
    config.vocab_size = texts_.vocab_size;
    check_config(config);
    return config;
  }
  Config linear_config(const Json& entry) const {
    Config config =
        model_config({settings_.at("linear_model"), entry}, Task::kCausalLm, "roformer");
    encoding_rate_of(entry, settings_.at("linear_model"));
    config.vocab_size = characters_.vocab_size;
    check_config(config);
    return config;
  }
  bool is_tuned(const std::string& variant) const {
    return std::ranges::find(tuned_, variant) != tuned_.end();
  }
  bool is_masked(const std::string& variant) const {
    const std::vector<Json> masked = settings_.list("masked");
    return std::ranges::any_of(
        masked, [&](const Json& entry) { return entry.at("name").as_string() == variant; });
  }

  std::vector<Row> run_masked(const UnitRun& run) const;
  void tune(const ModelImpl& model, const UnitRun& run, std::vector<Row>& rows) const;
  std::vector<Row> run_linear(const UnitRun& run) const;

  LabOptions options_;
  Settings settings_;
  std::vector<std::string> tuned_;
  std::vector<SmallTask> tasks_;
  TextData texts_;
  TextData characters_;
};

RoformerLab::RoformerLab(const LabOptions& options)
    : options_(options),
      settings_(merge_settings(roformer_defaults(options.quick), options.config)) {
  const Settings glue(settings_.at("glue"));
  for (const Json& name : glue.at("variants").elements()) tuned_.push_back(name.as_string());
  std::vector<std::string> names;
  const std::int64_t max_examples = glue.integer("max_examples", 1);
  for (const Json& name : glue.at("tasks").elements()) {
    if (name.as_string() != "order") {
      names.push_back(name.as_string());
      continue;
    }
    const std::string text = settings_.at("corpus").at("train").as_string();
    tasks_.push_back(order_task(find_lab_file(text, options), max_examples,
                                std::max<std::int64_t>(1, max_examples / 4), kOrderSeed));
  }
  for (SmallTask& task : read_glue_tasks(options.data / "glue", names, max_examples)) {
    tasks_.push_back(std::move(task));
  }
  texts_ = load_text(settings_.at("corpus"), options, settings_.integer("length", 2));
  characters_ =
      load_text(settings_.at("characters"), options, settings_.integer("linear_length", 2));
  for (const Json& entry : settings_.list("masked")) masked_config(entry);
  for (const Json& entry : settings_.list("linear")) linear_config(entry);
}

std::vector<Unit> RoformerLab::units() const {
  std::vector<Unit> units;
  for (Unit unit : units_of(settings_.list("masked"), options_.seeds)) {
    unit.cost = settings_.at("training").at("steps").as_double();
    if (is_tuned(unit.variant)) unit.cost /= kPretrainingShare;
    units.push_back(std::move(unit));
  }
  for (Unit unit : units_of(settings_.list("linear"), options_.seeds)) {
    unit.cost = settings_.at("linear_training").at("steps").as_double();
    units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Row> RoformerLab::run(const UnitRun& run) {
  return is_masked(run.unit.variant) ? run_masked(run) : run_linear(run);
}

std::vector<Row> RoformerLab::run_masked(const UnitRun& run) const {
  const auto seed = static_cast<std::uint64_t>(run.unit.seed);
  const Json entry = entry_of(settings_.list("masked"), run.unit.variant);
  const Config config = masked_config(entry);
  const Model model = make_seeded_model(config, seed, run.device);
  const std::int64_t count = settings_.integer("rows", 1);
  const std::int64_t length = settings_.integer("length", 2);
  const double rate = settings_.number("mask_rate");
  TrainPlan plan = plan_of(Settings(settings_.at("training")), run.device);
  plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
  if (is_tuned(run.unit.variant)) plan.progress = {0.0, kPretrainingShare};
  const Trained trained = train_model(
      *model, plan,
      [&](std::int64_t step) {
        return masked_rows_with_cls(texts_, count, length, rate, seed, step);
      },
      run);
  std::vector<Row> rows;
  for (const auto& [step, loss] : trained.curve) {
    rows.push_back(run.row("masked_loss", loss, {{"step", static_cast<double>(step)}}));
  }
  rows.push_back(run.row("masked_accuracy", masked_accuracy_at(*model, texts_, length, rate)));
  rows.push_back(run.row("parameters", static_cast<double>(num_parameters(*model))));
  rows.push_back(run.row("tokens_per_second", trained.tokens_per_second));
  if (is_tuned(run.unit.variant)) tune(*model, run, rows);
  return rows;
}

void RoformerLab::tune(const ModelImpl& model, const UnitRun& run, std::vector<Row>& rows) const {
  const Settings glue(settings_.at("glue"));
  const SmallTuning tuning{.epochs = glue.integer("epochs", 1),
                           .rows = glue.integer("rows", 1),
                           .max_length = glue.integer("max_length", 8),
                           .learning_rate = glue.number("learning_rate")};
  const double part = (1.0 - kPretrainingShare) / static_cast<double>(tasks_.size());
  double done = kPretrainingShare;
  for (const SmallTask& task : tasks_) {
    const Metrics metrics =
        tune_small(model, task, texts_.tokenizer, tuning, {done, done + part}, run);
    done += part;
    for (const auto& [metric, value] : metrics) {
      rows.push_back(run.row(task.name + "_" + metric, value));
    }
  }
}

std::vector<Row> RoformerLab::run_linear(const UnitRun& run) const {
  const auto seed = static_cast<std::uint64_t>(run.unit.seed);
  const Json entry = entry_of(settings_.list("linear"), run.unit.variant);
  const Config config = linear_config(entry);
  const Model model = make_seeded_model(config, seed, run.device);
  const std::int64_t count = settings_.integer("linear_rows", 1);
  const std::int64_t length = settings_.integer("linear_length", 2);
  TrainPlan plan = plan_of(Settings(settings_.at("linear_training")), run.device);
  plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("linear_model"));
  const Trained trained = train_model(
      *model, plan,
      [&](std::int64_t step) { return causal_batch(characters_, count, length, seed, step); }, run);
  std::vector<Row> rows;
  for (const auto& [step, loss] : trained.curve) {
    rows.push_back(run.row("character_loss", loss, {{"step", static_cast<double>(step)}}));
  }
  rows.push_back(run.row("held_out_loss",
                         std::log(perplexity_at(*model, characters_, length, Windows::kDisjoint))));
  rows.push_back(run.row("parameters", static_cast<double>(num_parameters(*model))));
  rows.push_back(run.row("tokens_per_second", trained.tokens_per_second));
  return rows;
}

}  // namespace

std::unique_ptr<Lab> make_roformer_lab(const LabOptions& options) {
  return std::make_unique<RoformerLab>(options);
}

}  // namespace rotary::roformer::lab
