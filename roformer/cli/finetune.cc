// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer finetune: fine-tuning of a pretrained model for a task.
#include "roformer/tasks/finetune.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/json_file.h"
#include "json/json.h"
#include "roformer/checkpoint/checkpoint.h"
#include "roformer/checkpoint/vocabulary_files.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/config_flags.h"
#include "roformer/cli/progress.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/cli/tune_setup.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/interrupt.h"
#include "roformer/train/run_lock.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;
using internal::Json;

struct TuneOptions {
  TuneConfig config;
  std::string output;
  bool json = false;
};

constexpr const char* kTuneFooter =
    R"(TRAIN is one of
  single texts, or pairs with --second-text   a table with a header line (.tsv), or JSON lines
  triples (--format triples)                  {"A", "B", "C"}: B is nearer to A than C is
  words with their classes (--task tokens)    columns, the word first and its class last, a blank
                                              line after each text; or {"tokens", "labels"}
  questions (--task questions)                {"question", "context", "answer", "answer_start"}

After each epoch the model is evaluated on --valid: by the F1 of entities or answers, else by
accuracy. The best is kept in RUN/best and evaluated on --test at the end. Checkpoints, metrics and
config.json (the full config) are in RUN, too: the same command again resumes an interrupted run.
Every flag is also a key of the config file, with _ for -; flags take precedence.

--folds K cross-validates: the first documents are distributed over K folds, and each fold is tested
with a model trained on the examples without any of its documents. That model is the one of the last
epoch: nothing is selected on the test data. No model is kept.

Examples:
  roformer finetune base/ train.tsv --valid dev.tsv --test test.tsv -o run/
  roformer finetune base/ pairs.jsonl --text q --second-text a --valid dev.jsonl -o run/
  roformer finetune base/ names.conll --valid dev.conll -o run/
  roformer finetune base/ squad.jsonl --task questions --valid dev.jsonl -o run/
  roformer finetune --config tune.json -o run/
  roformer finetune base/ scm.jsonl --format triples --folds 5 --max-length 1024)";

void save_with_vocabulary(const fs::path& folder, const ModelImpl& model,
                          const VocabularyFiles& files) {
  save_model(folder, model, {.add_files = [&files](const fs::path& into) { files.write(into); }});
}

Json metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!text.empty()) text += ", ";
    const bool is_share = name == "accuracy" || name == "exact";
    text += is_share ? fmt::format("{} {:.2f} %", name, 100 * value)
                     : fmt::format("{} {:.4f}", name, value);
  }
  return text;
}

/// Progress for the user; none with --json.
class TuneProgress {
 public:
  explicit TuneProgress(const TuneOptions& options) {
    if (!options.json) progress_.emplace();
  }
  void say(const std::string& line) {
    if (progress_) progress_->say(line);
  }
  /// Connects the progress line and Ctrl-C.
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

/// Metrics of the best epoch so far.
Metrics read_best(const fs::path& folder) {
  Metrics metrics;
  if (!fs::exists(folder / "valid.json")) return metrics;
  const Json json = internal::read_json_file(folder / "valid.json");
  for (const auto& [name, value] : json.members()) metrics[name] = value.as_double();
  return metrics;
}

/// Writes the config to the run's folder, unless that holds a run with another one.
void keep_config(const TuneOptions& options) {
  const fs::path kept = fs::path(options.output) / "config.json";
  if (!last_checkpoint(options.output).empty() && fs::exists(kept)) {
    const std::string key = other_key(options.config, read_tune_config(kept));
    if (!key.empty()) {
      throw UsageError(fmt::format("{} holds a run with another {}: choose another folder",
                                   options.output, key));
    }
  }
  write_text(kept, to_json(options.config));
}

/// The metrics of the best epoch are written last: if the process is killed before, the epoch is
/// run, and found best, again.
void keep_best(const fs::path& folder, const ModelImpl& model, const VocabularyFiles& files,
               const Metrics& metrics) {
  save_with_vocabulary(folder, model, files);
  write_text(folder / "valid.json", metrics_json(metrics).dump() + "\n");
}

void tune(const TuneOptions& options) {
  const TuneConfig& config = options.config;
  const TextFiles paths = find_text_files(text_options(config));
  const auto files = VocabularyFiles::read(paths.vocabulary, paths.dictionary);
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(text_options(config));
  const Labelled train = read_labelled(config.train, config);
  const auto labels = labels_of(train);
  Labelled valid;
  Labelled test;
  if (!config.valid.empty()) valid = read_labelled(config.valid, config, labels);
  if (!config.test.empty()) test = read_labelled(config.test, config, labels);
  const Model model = make_task_model(config, train, tokenizer->vocabulary(), config.seed);
  const RunLock lock(options.output);
  keep_config(options);

  const fs::path best = fs::path(options.output) / "best";
  TuneProgress progress(options);
  FinetuneOptions tuning = finetune_options(config);
  tuning.train.folder = options.output;
  progress.watch(tuning);
  tuning.best_before = read_best(best);
  tuning.on_save = [&](const fs::path& folder) { files.write(folder); };
  tuning.on_epoch = [&](std::int64_t step, const Metrics& metrics, bool is_best) {
    progress.say(fmt::format("step {}: valid {}{}", step, metrics_text(metrics),
                             is_best ? ", the best so far" : ""));
    if (is_best) keep_best(best, *model, files, metrics);
  };
  const FinetuneOutcome outcome =
      finetune(model, tokenizer, train, config.valid.empty() ? nullptr : &valid, tuning);
  if (outcome.end.ending == Ending::kStopped) {
    progress.say("stopped and saved: the same command resumes");
    return;
  }
  Json json = {{"steps", outcome.end.step}, {"run", options.output}};
  if (config.valid.empty()) {
    save_with_vocabulary(best, *model, files);
  } else {
    json["valid"] = metrics_json(outcome.best);
  }
  if (!config.test.empty()) {
    const Model kept = load_complete_model(best);
    kept->to(device_of_run(config));
    kept->set_compute_type(type_of_run(config));
    const Metrics metrics = evaluate(*kept, test, tokenizer, tuning.reading);
    progress.say("test " + metrics_text(metrics));
    json["test"] = metrics_json(metrics);
  }
  progress.say("The model is in " + best.string());
  if (options.json) print_json(json);
}

/// Errors name the last checkpoint.
void tune_or_advise(const TuneOptions& options) {
  const auto fail = [&](const std::string& error) {
    throw std::runtime_error(error +
                             what_is_left(options.output, error, "the same command resumes"));
  };
  try {
    tune(options);
  } catch (const NotFinite& error) {
    fail(error.what());
  } catch (const IoError& error) {
    fail(error.what());
  } catch (const fs::filesystem_error& error) {
    fail(error.path1().string() + ": " + error.code().message());
  }
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
  const TuneConfig& config = options.config;
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(text_options(config));
  const Labelled data = read_labelled(config.train, config);
  const std::vector<Fold> folds =
      folds_of(data, static_cast<std::size_t>(config.folds), config.seed);
  TuneProgress progress(options);
  FinetuneOptions tuning = finetune_options(config);
  progress.watch(tuning);
  Json json = {{"folds", Json::array()}};
  std::string metric;
  std::vector<double> results;
  double sum = 0.0;
  double tested = 0.0;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Model model = make_task_model(config, data, tokenizer->vocabulary(), config.seed + i);
    const Labelled test = items_of(data, folds[i].test);
    const FinetuneOutcome outcome =
        finetune(model, tokenizer, items_of(data, folds[i].train), nullptr, tuning);
    if (outcome.end.ending == Ending::kStopped) return progress.say("stopped");
    const Metrics metrics = evaluate(*model, test, tokenizer, tuning.reading);
    if (metric.empty()) metric = main_metric(metrics);
    // A fold without entities has no F1.
    results.push_back(metrics.contains(metric) ? metrics.at(metric) : 0.0);
    const auto count = static_cast<double>(folds[i].test.size());
    sum += results.back() * count;
    tested += count;
    json["folds"].push_back({{"train", folds[i].train.size()},
                             {"test", folds[i].test.size()},
                             {"measures", metrics_json(metrics)}});
    progress.say(fmt::format("fold {} of {}: {} to train on, {} tested: {}", i + 1, folds.size(),
                             folds[i].train.size(), folds[i].test.size(), metrics_text(metrics)));
  }
  const Spread spread = spread_of(results);
  json[metric] = sum / tested;
  json["mean_of_folds"] = spread.mean;
  json["deviation_of_folds"] = spread.deviation;
  progress.say(fmt::format("all: {} {:.2f} %; folds {:.2f} +- {:.2f} %", metric, 100 * sum / tested,
                           100 * spread.mean, 100 * spread.deviation));
  if (!options.output.empty()) {
    write_text(fs::path(options.output) / "folds.json", json.dump_lines());
  }
  if (options.json) print_json(json);
}

/// The file of --config, overridden by flags.
TuneConfig tune_config_from(const ConfigFlags& flags) {
  TuneConfig config = flags.file().empty() ? TuneConfig() : read_tune_config(flags.file());
  flags.apply_to(keys_of(config));
  if (config.checkpoint.empty()) throw UsageError("name the pretrained model: CHECKPOINT");
  if (config.train.empty()) throw UsageError("name the training examples: TRAIN");
  if (config.folds == 1) throw UsageError("--folds must be at least 2, got 1");
  if (config.folds > 0 && !(config.valid.empty() && config.test.empty())) {
    throw UsageError("--folds takes neither --valid nor --test");
  }
  return with_absolute_paths(std::move(config));
}

void run_finetune(const ConfigFlags& flags, TuneOptions options) {
  options.config = tune_config_from(flags);
  if (options.config.folds == 0) {
    if (options.output.empty()) throw UsageError("name the folder of the run with --output");
    return tune_or_advise(options);
  }
  if (!options.output.empty()) {
    const RunLock lock(options.output);
    keep_config(options);
    return cross_validate(options);
  }
  cross_validate(options);
}

}  // namespace

void add_finetune(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* verb = app.add_subcommand("finetune", "Fine-tune a pretrained model for a task");
  verb->footer(kTuneFooter);
  verb->add_option("-o,--output", options->output, "Folder of the run")->type_name("RUN");
  verb->add_flag("--json", options->json, "Print one line of JSON at the end");
  flags->add_to(*verb, keys_of(options->config), {"checkpoint", "train"});
  verb->callback([options, flags] { run_finetune(*flags, *options); });
}

}  // namespace rotary::roformer::cli
