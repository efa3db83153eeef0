// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer finetune: a pretrained model learns a task.
#include "roformer/tasks/finetune.h"

#include <ATen/Functions.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/progress.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/tasks/labels.h"
#include "roformer/train/interrupt.h"
#include "rotary/error.h"
#include "tools/terminal.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

struct TuneOptions {
  TextOptions text;
  ComputeOptions compute;
  ExampleOptions examples;
  std::string train;
  std::string valid;
  std::string test;
  std::string output;
  std::string task;
  std::string pooling = "mean";
  std::string schedule = "linear";
  FinetuneOptions tuning;
  std::size_t folds = 0;
  std::optional<double> dropout;
  bool json = false;
};

constexpr const char* kTuneFooter =
    R"(TRAIN is a table with a line of names (.tsv) or lines of JSON (.jsonl): single texts, or
pairs with --second-text. With --format triples, lines of {"A", "B", "C"}: pairs (A, B) and (A, C)
are learnt, and the model is judged by how often the nearer document has the higher score.

After each epoch the model is judged by --valid; the best is kept in RUN/best, and --test judges
that one at the end. Checkpoints and metrics are in RUN, too: the same command again continues a run
that was interrupted.

--folds K needs no other data: the first documents are dealt out to K folds, and each fold is tested
by a model that learnt from the examples without any of its documents. That model is the one of the
last epoch: nothing is chosen by what it is tested with. No model is kept.

Examples:
  roformer finetune base/ train.tsv --valid dev.tsv --test test.tsv -o run/
  roformer finetune base/ pairs.jsonl --text q --second-text a --valid dev.jsonl -o run/
  roformer finetune base/ scm.jsonl --format triples --folds 5 --max-length 1024)";

Labelled read_labelled(const std::string& path, const TuneOptions& options,
                       std::span<const std::string> labels = {}) {
  if (are_triples(options.examples)) return read_triples(path);
  return read_examples(path, options.examples, labels);
}

std::vector<std::string> labels_of(const Labelled& data) {
  const auto* set = std::get_if<ExampleSet>(&data);
  return set == nullptr ? std::vector<std::string>() : set->labels;
}

Task task_of(const TuneOptions& options, const Labelled& data) {
  const auto* set = std::get_if<ExampleSet>(&data);
  if (options.task == "classification") return Task::kSequenceClassification;
  if (options.task == "matching" || set == nullptr || set->pairs) return Task::kPairMatching;
  return Task::kSequenceClassification;
}

/// The encoder of the checkpoint below the layers of the task, which begin anew.
Model make_task_model(const TuneOptions& options, const Labelled& data, std::uint64_t seed) {
  const CheckpointFiles files = find_checkpoint(options.text.checkpoint);
  Config config = read_config(files.config);
  config.task = task_of(options, data);
  config.pair_pooling = options.pooling == "cls" ? Pooling::kCls : Pooling::kMean;
  if (const auto labels = labels_of(data); !labels.empty()) {
    set_label_names(config, labels);
  } else {
    config.num_labels = 1;  // of a pair: whether the two are near
  }
  if (options.dropout) {
    config.hidden_dropout_prob = *options.dropout;
    config.attention_probs_dropout_prob = *options.dropout;
  }
  at::manual_seed(seed);
  Model model = make_model(config);
  const LoadReport report =
      load_weights(*model, read_weights(files.weights), files.weights.string());
  for (const std::string& name : report.missing) {
    if (!name.starts_with("classifier.")) {
      throw IoError(files.weights.string(), IoError::kNoOffset, "no tensor " + name);
    }
  }
  model->to(device_of(options.compute));
  model->set_compute_type(type_of(options.compute));
  return model;
}

void save_with_vocabulary(const fs::path& folder, const ModelImpl& model, const TextFiles& files) {
  save_model(folder, model);
  copy_text_files(files, folder);
}

OrderedJson measures_json(const Measures& measures) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : measures) json[name] = value;
  return json;
}

std::string measures_text(const Measures& measures) {
  std::string text;
  for (const auto& [name, value] : measures) {
    if (!text.empty()) text += ", ";
    text += name == "accuracy" ? fmt::format("accuracy {:.2f} %", 100 * value)
                               : fmt::format("{} {:.4f}", name, value);
  }
  return text;
}

/// What a person sees; nothing where the result is to be JSON.
class TuneProgress {
 public:
  explicit TuneProgress(const TuneOptions& options) {
    if (!options.json) progress_.emplace();
  }
  void say(const std::string& line) {
    if (progress_) progress_->say(line);
  }
  /// A line while it runs, and Ctrl-C.
  void watch(FinetuneOptions& tuning) {
    tuning.on_report = [this](const StepReport& report) {
      if (progress_) progress_->show(report);
    };
    tuning.on_stop = [] { return InterruptGuard::requested(); };
  }

 private:
  InterruptGuard interrupts_;
  std::optional<Progress> progress_;
};

// ---- One run ------------------------------------------------------------------------------------

/// What the best epoch so far reached, from the file beside it.
Measures read_best(const fs::path& folder) {
  std::ifstream in(folder / "valid.json");
  const OrderedJson json = OrderedJson::parse(in, nullptr, false);
  Measures measures;
  if (!json.is_object()) return measures;
  for (const auto& [name, value] : json.items()) measures[name] = value.get<double>();
  return measures;
}

void tune(const TuneOptions& options) {
  const TextFiles files = find_text_files(options.text);
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(options.text);
  const Labelled train = read_labelled(options.train, options);
  const auto labels = labels_of(train);
  Labelled valid;
  if (!options.valid.empty()) valid = read_labelled(options.valid, options, labels);
  const Model model = make_task_model(options, train, options.tuning.seed);

  const fs::path best = fs::path(options.output) / "best";
  TuneProgress progress(options);
  FinetuneOptions tuning = options.tuning;
  progress.watch(tuning);
  tuning.best_before = read_best(best);
  tuning.on_save = [&](const fs::path& folder) { copy_text_files(files, folder); };
  tuning.on_epoch = [&](std::int64_t step, const Measures& measures, bool is_best) {
    progress.say(fmt::format("step {}: valid {}{}", step, measures_text(measures),
                             is_best ? ", the best so far" : ""));
    if (!is_best) return;
    save_with_vocabulary(best, *model, files);
    std::ofstream(best / "valid.json") << measures_json(measures).dump() << "\n";
  };
  const FinetuneOutcome outcome =
      finetune(model, tokenizer, train, options.valid.empty() ? nullptr : &valid, tuning);
  if (outcome.end.ending == Ending::kStopped) {
    progress.say("stopped and saved: the same command goes on");
    return;
  }
  OrderedJson json = {{"steps", outcome.end.step}, {"run", options.output}};
  if (options.valid.empty()) {
    save_with_vocabulary(best, *model, files);
  } else {
    json["valid"] = measures_json(outcome.best);
  }
  if (!options.test.empty()) {
    const Model kept = load_complete_model(best);
    kept->to(device_of(options.compute));
    kept->set_compute_type(type_of(options.compute));
    const Measures measures =
        judge(*kept, read_labelled(options.test, options, labels), tokenizer, tuning.reading);
    progress.say("test " + measures_text(measures));
    json["test"] = measures_json(measures);
  }
  progress.say("The model is in " + best.string());
  if (options.json) print_json(json);
}

// ---- Cross-validation ---------------------------------------------------------------------------

struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};
Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  for (const double value : values) spread.deviation += std::pow(value - spread.mean, 2);
  spread.deviation = std::sqrt(spread.deviation / std::max(1.0, count - 1));
  return spread;
}

void cross_validate(const TuneOptions& options) {
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(options.text);
  const Labelled data = read_labelled(options.train, options);
  const std::vector<Fold> folds = folds_of(data, options.folds, options.tuning.seed);
  TuneProgress progress(options);
  FinetuneOptions tuning = options.tuning;
  progress.watch(tuning);
  OrderedJson json = {{"folds", OrderedJson::array()}};
  std::vector<double> accuracies;
  double right = 0.0;
  double tested = 0.0;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Model model = make_task_model(options, data, options.tuning.seed + i);
    const Labelled test = items_of(data, folds[i].test);
    const FinetuneOutcome outcome =
        finetune(model, tokenizer, items_of(data, folds[i].train), nullptr, tuning);
    if (outcome.end.ending == Ending::kStopped) return progress.say("stopped");
    const Measures measures = judge(*model, test, tokenizer, options.tuning.reading);
    accuracies.push_back(measures.at("accuracy"));
    const auto count = static_cast<double>(folds[i].test.size());
    right += accuracies.back() * count;
    tested += count;
    json["folds"].push_back({{"train", folds[i].train.size()},
                             {"test", folds[i].test.size()},
                             {"measures", measures_json(measures)}});
    progress.say(fmt::format("fold {} of {}: {} to learn from, {} tested: {}", i + 1, folds.size(),
                             folds[i].train.size(), folds[i].test.size(), measures_text(measures)));
  }
  const Spread spread = spread_of(accuracies);
  json["accuracy"] = right / tested;
  json["mean_of_folds"] = spread.mean;
  json["deviation_of_folds"] = spread.deviation;
  progress.say(fmt::format("all: accuracy {:.2f} %; folds {:.2f} +- {:.2f} %", 100 * right / tested,
                           100 * spread.mean, 100 * spread.deviation));
  if (options.json) print_json(json);
}

void run_finetune(TuneOptions options) {
  const std::size_t length = options.text.max_length;
  options.tuning.reading.max_length = length == 0 ? 512 : length;
  options.tuning.reading.pair_types = pair_types_of(options.examples);
  options.tuning.reading.rows = 2 * options.tuning.rows;
  TrainOptions& train = options.tuning.train;
  train.compute_type = type_of(options.compute);
  train.seed = options.tuning.seed;
  train.schedule.shape =
      options.schedule == "constant" ? ScheduleShape::kConstant : ScheduleShape::kLinear;
  if (options.folds > 0) {
    if (!options.valid.empty() || !options.test.empty() || !options.output.empty()) {
      throw UsageError("--folds takes neither --valid nor --test nor --output");
    }
    return cross_validate(options);
  }
  if (options.output.empty()) throw UsageError("name the folder of the run with --output");
  train.folder = options.output;
  tune(options);
}

void add_tuning_options(CLI::App& verb, TuneOptions& options) {
  FinetuneOptions& tuning = options.tuning;
  tuning.train.learning_rate = 2e-5;
  verb.add_option("--epochs", tuning.epochs, "How often every example is learnt from")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb.add_option("--batch", tuning.rows, "Examples a step; a triple is two")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--accumulate", tuning.train.accumulate, "Batches a step")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--learning-rate", tuning.train.learning_rate, "At its highest")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--warmup", tuning.warmup, "Share of the steps in which it rises")
      ->type_name("R")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb.add_option("--schedule", options.schedule, "Afterwards: linear (down to 0) or constant")
      ->type_name("KIND")
      ->check(CLI::IsMember({"linear", "constant"}))
      ->capture_default_str();
  verb.add_option("--weight-decay", tuning.train.adamw.weight_decay, "Of AdamW")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--dropout", options.dropout, "Another than the model's")
      ->type_name("R")
      ->check(CLI::Range(0.0, 0.999));
  verb.add_option("--clip", tuning.train.clip_norm, "Largest norm of the gradient; 0: any")
      ->type_name("R")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--seed", tuning.seed, "Of new layers, order, dropout and folds")->type_name("N");
}

}  // namespace

void add_finetune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* verb = app.add_subcommand("finetune", "Teach a pretrained model a task");
  verb->footer(kTuneFooter);
  add_text_options(*verb, options->text);
  verb->add_option("TRAIN", options->train, "Labelled examples")->required()->type_name("");
  verb->add_option("--valid", options->valid, "Examples that say which epoch is the best")
      ->type_name("FILE");
  verb->add_option("--test", options->test, "Examples for the best epoch, at the end")
      ->type_name("FILE");
  verb->add_option("-o,--output", options->output, "Folder of the run")->type_name("RUN");
  verb->add_option("--folds", options->folds, "Cross-validate with that many folds")
      ->type_name("K")
      ->check(CLI::Range(2, 1000));
  verb->add_option("--task", options->task,
                   "classification ([CLS], two layers) or matching (pooled, one layer); else "
                   "matching for pairs and triples")
      ->type_name("KIND")
      ->check(CLI::IsMember({"classification", "matching"}));
  verb->add_option("--pooling", options->pooling, "Of matching: mean or cls")
      ->type_name("KIND")
      ->check(CLI::IsMember({"mean", "cls"}));
  verb->add_option("--format", options->examples.format,
                   "tsv, jsonl or triples; else by the file's name")
      ->type_name("KIND")
      ->check(CLI::IsMember({"tsv", "jsonl", "triples"}));
  add_example_options(*verb, options->examples);
  add_tuning_options(*verb, *options);
  add_compute_options(*verb, options->compute);
  verb->add_flag("--json", options->json, "Print one line of JSON at the end");
  verb->callback([options] { run_finetune(*options); });
}

}  // namespace rotary::roformer::cli
