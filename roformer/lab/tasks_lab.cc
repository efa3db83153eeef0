// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The lab `tasks`: generated problems, trained short and judged long, for each encoding; and
// RoPER's three tasks. A unit is an encoding, with one model for all tasks, or a task of RoPER with
// one encoding.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "roformer/lab/generated_batches.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/settings.h"
#include "roformer/lab/task_scores.h"
#include "roformer/lab/tasks_settings.h"
#include "roformer/lab/training.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Of the problems that are judged: none of a training seed.
constexpr std::uint64_t kJudgedSeed = 1'000'003;
/// Small kernels: several models keep a GPU busier than one, until their launches queue up.
constexpr std::int64_t kTaskJobs = 4;

/// Vocabularies are multiples of 8, as the matrix units like it.
constexpr std::int64_t round_up(std::int64_t size) { return (size + 7) / 8 * 8; }

/// Of training data.
std::uint64_t data_seed(std::int64_t seed) { return static_cast<std::uint64_t>(seed) * 64; }

TaskKind task_of(const Json& name) {
  for (const TaskKind task : task_kinds()) {
    if (name.is_string() && name.as_string() == name_of(task)) return task;
  }
  internal::reject("[lab] tasks must be a list of generated tasks, got ", name.excerpt());
}

/// The key "task" of an entry of `roper`; without it, its name.
RoperTask roper_task_of(const Json& entry) {
  const std::string name = Settings(entry).text(entry.contains("task") ? "task" : "name");
  for (const RoperTask task : {RoperTask::kAddition, RoperTask::kIndex, RoperTask::kPrefix}) {
    if (name == name_of(task)) return task;
  }
  internal::reject("[lab] roper must be addition, index or prefix, got ", name);
}

/// The keys "letters": [least, most], "substring" and "random" of an entry of `roper`, which are
/// optional.
RoperStrings strings_of(const Json& entry) {
  RoperStrings strings;
  const Settings own(entry);
  constexpr std::int64_t kMaxLetters = 256;
  const auto check = [&](std::string_view key, std::int64_t value) {
    if (value < 1 || value > kMaxLetters) {
      internal::reject("[lab] ", key, " must be from 1 to ", kMaxLetters, ", got ", value);
    }
    return static_cast<std::uint32_t>(value);
  };
  if (entry.contains("letters")) {
    const std::vector<std::int64_t> range = own.integers("letters");
    if (range.size() != 2 || range.front() > range.back()) {
      internal::reject("[lab] letters must be the least and the largest number, got ",
                       entry.at("letters").excerpt());
    }
    strings.min_letters = check("letters", range.front());
    strings.max_letters = check("letters", range.back());
  }
  if (entry.contains("substring")) strings.substring = check("substring", own.integer("substring"));
  if (entry.contains("random")) strings.random = check("random", own.integer("random"));
  return strings;
}

class TasksLab final : public Lab {
 public:
  explicit TasksLab(const LabOptions& options)
      : options_(options),
        settings_(merge_settings(tasks_defaults(options.quick), options.config)) {
    for (const Json& name : settings_.at("tasks").elements()) tasks_.push_back(task_of(name));
    test_lengths_ = settings_.integers("test_lengths");
    train_length_ = settings_.integer("train_length", 1);
    for (const Json& entry : settings_.list("encodings")) config_of(entry);
    for (const Json& entry : settings_.list("roper")) {
      check_keys(entry, {"name", "task", "seeds", "rows", "length", "training", "model", "letters",
                         "substring", "random"});
      check_training(entry.at("training"), entry.at("name").as_string() + ", training");
      strings_of(entry);
      for (const bool rotated : {false, true}) {
        roper_config(entry, roper_task_of(entry), rotated);
      }
    }
  }

  const Json& settings() const override { return settings_.json(); }
  std::vector<Unit> units() const override;
  std::vector<Row> run(const UnitRun& run) override;
  std::int64_t jobs() const override { return kTaskJobs; }

 private:
  Config config_of(const Json& encoding) const {
    Config config = model_config({settings_.at("model"), encoding}, Task::kCausalLm, "tasks");
    config.vocab_size = round_up(TaskTokens::kCount);
    check_config(config);
    encoding_rate_of(encoding, settings_.at("model"));  // found before the first unit
    return config;
  }
  static Config roper_config(const Json& entry, RoperTask task, bool rotated) {
    Config config = model_config({entry.at("model")}, Task::kCausalLm, "tasks");
    config.vocab_size = round_up(alphabet_of(task).size());
    config.rotary_output = rotated;
    check_config(config);
    encoding_rate_of(entry.at("model"));
    return config;
  }

  std::vector<Row> run_encoding(const UnitRun& run) const;
  std::vector<Row> run_roper(const UnitRun& run) const;

  LabOptions options_;
  Settings settings_;
  std::vector<TaskKind> tasks_;
  std::vector<std::int64_t> test_lengths_;
  std::int64_t train_length_ = 0;
};

std::vector<Unit> TasksLab::units() const {
  std::vector<Unit> units;
  // The longest first, so that none is left alone at the end.
  for (const Json& entry : settings_.list("roper")) {
    const std::string task = entry.at("name").as_string();
    for (const char* encoding : {"rope", "roper"}) {
      for (Unit unit : units_of({entry}, options_.seeds)) {
        unit.variant = roper_variant(task, encoding);
        unit.entry = task;
        unit.cost = entry.at("training").at("steps").as_double();
        units.push_back(std::move(unit));
      }
    }
  }
  for (Unit unit : units_of(settings_.list("encodings"), options_.seeds)) {
    unit.cost = 2.0 * settings_.at("training").at("steps").as_double();
    units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Row> TasksLab::run(const UnitRun& run) {
  return run.unit.variant.find('/') == std::string::npos ? run_encoding(run) : run_roper(run);
}

std::vector<Row> TasksLab::run_encoding(const UnitRun& run) const {
  const Json entry = entry_of(settings_.list("encodings"), run.unit.variant);
  const Model model =
      make_seeded_model(config_of(entry), static_cast<std::uint64_t>(run.unit.seed), run.device);
  GeneratedBatches batches(
      [this](std::int64_t count, Random& random) {
        return task_batch(tasks_, {.rows = count, .max_length = train_length_}, random);
      },
      // A multiple of the number of tasks: each step has as many rows of each.
      {.rows = settings_.integer("rows_of_task", 1) * static_cast<std::int64_t>(tasks_.size()),
       .seed = data_seed(run.unit.seed)},
      run.device);
  TrainPlan plan = plan_of(Settings(settings_.at("training")), run.device);
  plan.options.encoding_rate = encoding_rate_of(entry, settings_.at("model"));
  plan.progress = {0.0, 0.95};
  const Trained trained = train_model(*model, plan, std::ref(batches), run);
  std::vector<Row> rows;
  add_curve(trained, run, rows);
  rows.push_back(run.row("parameters", static_cast<double>(num_parameters(*model))));
  rows.push_back(run.row("train_tokens_per_second", trained.tokens_per_second));
  const std::int64_t problems = settings_.integer("test_problems", 1);
  for (const TaskKind task : tasks_) {
    for (const std::int64_t length : test_lengths_) {
      const TaskScore score = score_task(*model, task, length, problems, kJudgedSeed);
      const Coordinates at = {{"length", static_cast<double>(length)}};
      rows.push_back(run.row(exact_metric(name_of(task)), score.exact, at));
      rows.push_back(run.row(tokens_metric(name_of(task)), score.tokens, at));
    }
  }
  return rows;
}

std::vector<Row> TasksLab::run_roper(const UnitRun& run) const {
  const std::size_t slash = run.unit.variant.find('/');
  const std::string name = run.unit.variant.substr(0, slash);
  const Json entry = entry_of(settings_.list("roper"), name);
  const Settings own(entry);
  const RoperTask task = roper_task_of(entry);
  const Config config = roper_config(entry, task, run.unit.variant.substr(slash + 1) == "roper");
  const Model model =
      make_seeded_model(config, static_cast<std::uint64_t>(run.unit.seed), run.device);
  const std::int64_t length = own.integer("length", 2);
  const RoperStrings strings = strings_of(entry);
  GeneratedBatches batches(
      [&](std::int64_t count, Random& random) {
        return roper_batch(task, count, length, random, strings);
      },
      {.rows = own.integer("rows", 1), .seed = data_seed(run.unit.seed)}, run.device);
  TrainPlan plan = plan_of(Settings(entry.at("training")), run.device);
  plan.options.encoding_rate = encoding_rate_of(entry.at("model"));
  const Trained trained = train_model(*model, plan, std::ref(batches), run);
  std::vector<Row> rows;
  add_curve(trained, run, rows);
  rows.push_back(run.row("parameters", static_cast<double>(num_parameters(*model))));
  rows.push_back(run.row("train_tokens_per_second", trained.tokens_per_second));
  Random random(kJudgedSeed, 0);
  rows.push_back(
      run.row("loss", batch_loss(*model, roper_batch(task, 64, length, random, strings))));
  if (task != RoperTask::kPrefix) {
    const std::int64_t solved =
        count_solved(*model, task, settings_.integer("roper_problems", 1), kJudgedSeed, strings);
    rows.push_back(run.row("solved", static_cast<double>(solved)));
  }
  return rows;
}

}  // namespace

std::unique_ptr<Lab> make_tasks_lab(const LabOptions& options) {
  return std::make_unique<TasksLab>(options);
}

}  // namespace rotary::roformer::lab
