// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// roformer finetune: fine-tuning of a pretrained model for a task.
#include "roformer/tasks/finetune.h"

#include <c10/core/DeviceGuard.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
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
#include "roformer/cli/cross_validate.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/cli/tune_report.h"
#include "roformer/cli/tune_setup.h"
#include "roformer/tasks/predictions.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/ranks.h"
#include "roformer/train/run_lock.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;
using internal::Json;

constexpr const char* kTuneFooter =
    R"(TRAIN is one of
  single texts, or pairs with --second-text   a table with a header line (.tsv), or JSON lines
  triples (--format triples)                  {"A", "B", "C"}: B is nearer to A than C is
  words with their classes (--task tokens)    columns, the word first and its class last, a blank
                                              line after each text; or {"tokens", "labels"}
  questions (--task questions)                {"question", "context", "answer", "answer_start"}
  a folder of GLUE, or a file of it (--task)  GLUE/MRPC with train.tsv and dev.tsv

--task regression learns a number: --label is its column. A context longer than --max-length is read
in windows, each --stride tokens after the one before.

After each epoch the model is evaluated on --valid: by --metric, or the F1 of entities or answers,
Spearman's correlation of numbers, else accuracy. The best is kept in RUN/best and evaluated on
--test at the end; for a test file of GLUE, without labels, RUN/predictions.tsv is written.
Checkpoints, metrics and config.json (the full config) are in RUN, too: the same command again
resumes an interrupted run. Every flag is also a key of the config file, with _ for -; flags take
precedence.

Data parallel, one process per GPU; --batch is that of all:
  torchrun --no-python --nproc-per-node 8 roformer finetune base/ train.tsv -o run/

--folds K cross-validates: the first documents are distributed over K folds, and each fold is tested
with a model trained on the examples without any of its documents. That model is the one of the last
epoch: nothing is selected on the test data. No model is kept.

Examples:
  roformer finetune base/ train.tsv --valid dev.tsv --test test.tsv -o run/
  roformer finetune base/ pairs.jsonl --text q --second-text a --valid dev.jsonl -o run/
  roformer finetune base/ names.conll --valid dev.conll -o run/
  roformer finetune base/ squad.jsonl --task questions --valid dev.jsonl -o run/
  roformer finetune base/ stars.tsv --task regression --label stars --valid dev.tsv -o run/
  roformer finetune base/ GLUE/MRPC -o run/
  roformer finetune --config tune.json -o run/
  roformer finetune base/ scm.jsonl --format triples --folds 5 --max-length 1024)";

void save_with_vocabulary(const fs::path& folder, const ModelImpl& model,
                          const VocabularyFiles& files) {
  save_model(folder, model, {.add_files = [&files](const fs::path& into) { files.write(into); }});
}

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

/// The data of a run.
struct TuneData {
  Labelled train{};
  std::optional<Labelled> valid{};
  std::optional<Labelled> test{};
};

TuneData read_data(const TuneConfig& config) {
  TuneData data{.train = read_labelled(config.train, config)};
  const auto labels = labels_of(data.train);
  if (!config.valid.empty()) data.valid = read_labelled(config.valid, config, labels);
  if (!config.test.empty()) data.test = read_labelled(config.test, config, labels);
  const auto require_labels = [](const Labelled& set, const std::string& path) {
    if (are_unlabelled(set)) throw IoError(path, IoError::kNoOffset, "it has no labels");
  };
  require_labels(data.train, config.train);
  if (data.valid) require_labels(*data.valid, config.valid);
  check_metric(config, data.train);
  return data;
}

/// Evaluates the best model; without labels, writes its predictions.
void test_best(const TuneOptions& options, const fs::path& best, const Labelled& test,
               const std::shared_ptr<const Tokenizer>& tokenizer, const AnswerOptions& reading,
               TuneProgress& progress, Json& json) {
  const Model kept = load_complete_model(best);
  kept->to(device_of_run(options.config));
  kept->set_compute_type(type_of_run(options.config));
  if (are_unlabelled(test)) {
    const auto set = std::make_shared<const ExampleSet>(std::get<ExampleSet>(test));
    const fs::path path = fs::path(options.output) / "predictions.tsv";
    write_text(path, predictions_table(predict(*kept, set, tokenizer, reading)));
    progress.say("The predictions for " + options.config.test + " are in " + path.string());
    json["predictions"] = path.string();
    return;
  }
  const Metrics metrics = evaluate(*kept, test, tokenizer, reading);
  progress.say("test " + metrics_text(metrics));
  json["test"] = metrics_json(metrics);
}

void tune(const TuneOptions& options) {
  const TuneConfig& config = options.config;
  const TextFiles paths = find_text_files(text_options(config));
  const auto files = VocabularyFiles::read(paths.vocabulary, paths.dictionary);
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(text_options(config));
  const TuneData data = read_data(config);
  const Model model = make_task_model(config, data.train, tokenizer->vocabulary(), config.seed);
  FinetuneOptions tuning = finetune_options(config);
  tuning.ranks = join_ranks(read_rank_environment(), device_of_run(config));
  const bool is_first = !tuning.ranks || tuning.ranks->rank() == 0;
  std::optional<RunLock> lock;
  if (is_first) {
    lock.emplace(options.output);
    keep_config(options);
  }
  // The others read the folder only after rank 0 has found it to be this run's.
  if (tuning.ranks) tuning.ranks->wait_for_all();

  const fs::path best = fs::path(options.output) / "best";
  TuneProgress progress(is_first && !options.json ? TuneProgress::Output::kLines
                                                  : TuneProgress::Output::kNone);
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
      finetune(model, tokenizer, data.train, data.valid ? &*data.valid : nullptr, tuning);
  if (!is_first) return;
  if (outcome.end.ending == Ending::kStopped) {
    progress.say("stopped and saved: the same command resumes");
    return;
  }
  Json json = {{"steps", outcome.end.step}, {"run", options.output}};
  if (data.valid) {
    json["valid"] = metrics_json(outcome.best);
  } else {
    save_with_vocabulary(best, *model, files);
  }
  if (data.test) test_best(options, best, *data.test, tokenizer, tuning.reading, progress, json);
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
  settle_glue(config);
  check_task(config);
  return with_absolute_paths(std::move(config));
}

void run_finetune(const ConfigFlags& flags, TuneOptions options) {
  options.config = tune_config_from(flags);
  const c10::DeviceGuard guard(device_of_run(options.config));
  if (options.config.folds == 0) {
    if (options.output.empty()) throw UsageError("name the folder of the run with --output");
    return tune_or_advise(options);
  }
  std::optional<RunLock> lock;
  if (!options.output.empty() && read_rank_environment().rank == 0) {
    lock.emplace(options.output);
    keep_config(options);
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
