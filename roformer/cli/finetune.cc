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
#include <utility>
#include <vector>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/config_flags.h"
#include "roformer/cli/progress.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/tasks/labels.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/train/checkpoints.h"
#include "roformer/train/interrupt.h"
#include "roformer/train/run_lock.h"
#include "rotary/error.h"
#include "tools/terminal.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

struct TuneOptions {
  TuneConfig config;
  std::string output;
  bool json = false;
};

constexpr const char* kTuneFooter =
    R"(TRAIN is one of
  single texts, or pairs with --second-text   a table with a line of names (.tsv), or lines of JSON
  triples (--format triples)                  {"A", "B", "C"}: B is nearer to A than C is
  words with their classes (--task tokens)    columns, the word first and its class last, a blank
                                              line after each text; or {"tokens", "labels"}
  questions (--task questions)                {"question", "context", "answer", "answer_start"}

After each epoch the model is judged by --valid: by the F1 of entities or answers, else by the
accuracy. The best is kept in RUN/best, and --test judges that one at the end. Checkpoints, metrics
and config.json (all that was decided) are in RUN, too: the same command again continues a run that
was interrupted. Every flag is a key of the config file, with _ for -; flags win.

--folds K needs no other data: the first documents are dealt out to K folds, and each fold is tested
by a model that learnt from the examples without any of its documents. That model is the one of the
last epoch: nothing is chosen by what it is tested with. No model is kept.

Examples:
  roformer finetune base/ train.tsv --valid dev.tsv --test test.tsv -o run/
  roformer finetune base/ pairs.jsonl --text q --second-text a --valid dev.jsonl -o run/
  roformer finetune base/ names.conll --valid dev.conll -o run/
  roformer finetune base/ squad.jsonl --task questions --valid dev.jsonl -o run/
  roformer finetune --config tune.json -o run/
  roformer finetune base/ scm.jsonl --format triples --folds 5 --max-length 1024)";

// ---- What the config means ----------------------------------------------------------------------

std::string unless_auto(const std::string& word) { return word == "auto" ? std::string() : word; }

TextOptions text_options(const TuneConfig& config) {
  return {.checkpoint = config.checkpoint,
          .vocabulary = config.vocab,
          .dictionary = config.dict,
          .tokenizer = unless_auto(config.tokenizer)};
}

ExampleOptions example_options(const TuneConfig& config) {
  return {.format = unless_auto(config.format),
          .columns = {.label = config.label, .first = config.text, .second = config.second_text},
          .zero_types = config.zero_types};
}

at::Device device_of_run(const TuneConfig& config) {
  return device_of(ComputeOptions{.device = unless_auto(config.device)});
}

at::ScalarType type_of_run(const TuneConfig& config) {
  const bool narrow = config.precision == "bfloat16" ||
                      (config.precision == "auto" && !device_of_run(config).is_cpu());
  return narrow ? at::kBFloat16 : at::kFloat;
}

FinetuneOptions finetune_options(const TuneConfig& config) {
  FinetuneOptions tuning{.epochs = config.epochs,
                         .rows = config.batch,
                         .warmup = config.warmup,
                         .reading = {.max_length = static_cast<std::size_t>(config.max_length),
                                     .pair_types = pair_types_of(example_options(config)),
                                     .rows = 2 * config.batch},
                         .seed = config.seed};
  TrainOptions& train = tuning.train;
  train.learning_rate = config.learning_rate;
  train.schedule.shape = config.schedule == "constant" ? ScheduleShape::kConstant
                         : config.schedule == "cosine" ? ScheduleShape::kCosine
                                                       : ScheduleShape::kLinear;
  train.adamw.weight_decay = config.weight_decay;
  train.clip_norm = config.clip_norm;
  train.accumulate = config.accumulate;
  train.compute_type = type_of_run(config);
  train.checkpointing = config.checkpointing;
  train.seed = config.seed;
  train.report_every = config.report_every;
  train.gradients_every = config.gradients_every;
  train.save_every = config.save_every;
  train.keep = config.keep;
  return tuning;
}

Labelled read_labelled(const std::string& path, const TuneConfig& config,
                       std::span<const std::string> labels = {}) {
  const ExampleOptions options = example_options(config);
  if (are_triples(options)) return read_triples(path);
  if (config.task == "questions") return read_questions(path);
  const bool columns = config.format == "conll" ||
                       (config.format == "auto" && fs::path(path).extension() == ".conll");
  if (config.task == "tokens" || columns) return read_tags(path, options, labels);
  return read_examples(path, options, labels);
}

std::vector<std::string> labels_of(const Labelled& data) {
  if (const auto* set = std::get_if<ExampleSet>(&data)) return set->labels;
  if (const auto* set = std::get_if<TagSet>(&data)) return set->labels;
  return {};
}

Task task_of(const TuneConfig& config, const Labelled& data) {
  if (std::holds_alternative<TagSet>(data)) return Task::kTokenClassification;
  if (std::holds_alternative<QuestionSet>(data)) return Task::kQuestionAnswering;
  if (config.task == "classification") return Task::kSequenceClassification;
  const auto* set = std::get_if<ExampleSet>(&data);
  if (config.task == "matching" || set == nullptr || set->pairs) return Task::kPairMatching;
  return Task::kSequenceClassification;
}

/// The encoder of the checkpoint below the layers of the task, which begin anew.
Model make_task_model(const TuneConfig& tune, const Labelled& data, const Vocabulary& vocabulary,
                      std::uint64_t seed) {
  const CheckpointFiles files = find_checkpoint(tune.checkpoint);
  Config config = read_config(files.config);
  check_vocabulary(vocabulary, config);
  config.task = task_of(tune, data);
  config.pair_pooling = tune.pooling == "cls" ? Pooling::kCls : Pooling::kMean;
  if (const auto labels = labels_of(data); !labels.empty()) {
    set_label_names(config, labels);
  } else {
    // Of a pair: whether the two are near. Of an answer: where it begins and ends.
    config.num_labels = config.task == Task::kQuestionAnswering ? 2 : 1;
  }
  if (tune.dropout >= 0) {
    config.hidden_dropout_prob = tune.dropout;
    config.attention_probs_dropout_prob = tune.dropout;
  }
  at::manual_seed(seed);
  Model model = make_model(config);
  const LoadReport report =
      load_weights(*model, read_weights(files.weights), files.weights.string());
  for (const std::string& name : report.missing) {
    if (!name.starts_with("classifier.") && !name.starts_with("qa_outputs.")) {
      throw IoError(files.weights.string(), IoError::kNoOffset, "no tensor " + name);
    }
  }
  model->to(device_of_run(tune));
  model->set_compute_type(type_of_run(tune));
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
    const bool is_share = name == "accuracy" || name == "exact";
    text += is_share ? fmt::format("{} {:.2f} %", name, 100 * value)
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
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) measures[name] = value.get<double>();
  }
  return measures;
}

/// The config goes to the run's folder, unless that holds a run of another one.
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

/// The best epoch's measures stand beside its model and are written last: a kill before that makes
/// the epoch run, and win, again.
void keep_best(const fs::path& folder, const ModelImpl& model, const TextFiles& files,
               const Measures& measures) {
  save_with_vocabulary(folder, model, files);
  write_text(folder / "valid.json", measures_json(measures).dump() + "\n");
}

void tune(const TuneOptions& options) {
  const TuneConfig& config = options.config;
  const TextFiles files = find_text_files(text_options(config));
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
  tuning.on_save = [&](const fs::path& folder) { copy_text_files(files, folder); };
  tuning.on_epoch = [&](std::int64_t step, const Measures& measures, bool is_best) {
    progress.say(fmt::format("step {}: valid {}{}", step, measures_text(measures),
                             is_best ? ", the best so far" : ""));
    if (is_best) keep_best(best, *model, files, measures);
  };
  const FinetuneOutcome outcome =
      finetune(model, tokenizer, train, config.valid.empty() ? nullptr : &valid, tuning);
  if (outcome.end.ending == Ending::kStopped) {
    progress.say("stopped and saved: the same command goes on");
    return;
  }
  OrderedJson json = {{"steps", outcome.end.step}, {"run", options.output}};
  if (config.valid.empty()) {
    save_with_vocabulary(best, *model, files);
  } else {
    json["valid"] = measures_json(outcome.best);
  }
  if (!config.test.empty()) {
    const Model kept = load_complete_model(best);
    kept->to(device_of_run(config));
    kept->set_compute_type(type_of_run(config));
    const Measures measures = judge(*kept, test, tokenizer, tuning.reading);
    progress.say("test " + measures_text(measures));
    json["test"] = measures_json(measures);
  }
  progress.say("The model is in " + best.string());
  if (options.json) print_json(json);
}

/// An error says what is still there.
void tune_or_advise(const TuneOptions& options) {
  const auto fail = [&](const std::string& error) {
    throw std::runtime_error(error +
                             what_is_left(options.output, error, "the same command goes on"));
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
  OrderedJson json = {{"folds", OrderedJson::array()}};
  std::string chief;
  std::vector<double> results;
  double sum = 0.0;
  double tested = 0.0;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Model model = make_task_model(config, data, tokenizer->vocabulary(), config.seed + i);
    const Labelled test = items_of(data, folds[i].test);
    const FinetuneOutcome outcome =
        finetune(model, tokenizer, items_of(data, folds[i].train), nullptr, tuning);
    if (outcome.end.ending == Ending::kStopped) return progress.say("stopped");
    const Measures measures = judge(*model, test, tokenizer, tuning.reading);
    if (chief.empty()) chief = chief_measure(measures);
    // A fold without entities has no F1.
    results.push_back(measures.contains(chief) ? measures.at(chief) : 0.0);
    const auto count = static_cast<double>(folds[i].test.size());
    sum += results.back() * count;
    tested += count;
    json["folds"].push_back({{"train", folds[i].train.size()},
                             {"test", folds[i].test.size()},
                             {"measures", measures_json(measures)}});
    progress.say(fmt::format("fold {} of {}: {} to learn from, {} tested: {}", i + 1, folds.size(),
                             folds[i].train.size(), folds[i].test.size(), measures_text(measures)));
  }
  const Spread spread = spread_of(results);
  json[chief] = sum / tested;
  json["mean_of_folds"] = spread.mean;
  json["deviation_of_folds"] = spread.deviation;
  progress.say(fmt::format("all: {} {:.2f} %; folds {:.2f} +- {:.2f} %", chief, 100 * sum / tested,
                           100 * spread.mean, 100 * spread.deviation));
  if (!options.output.empty()) {
    write_text(fs::path(options.output) / "folds.json", json.dump(2) + "\n");
  }
  if (options.json) print_json(json);
}

/// The file of --config, changed by what was typed.
TuneConfig tune_config_from(const ConfigFlags& flags) {
  TuneConfig config = flags.file().empty() ? TuneConfig() : read_tune_config(flags.file());
  flags.apply_to(keys_of(config));
  if (config.checkpoint.empty()) throw UsageError("name the model to begin with: CHECKPOINT");
  if (config.train.empty()) throw UsageError("name the examples to learn from: TRAIN");
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
  CLI::App* verb = app.add_subcommand("finetune", "Teach a pretrained model a task");
  verb->footer(kTuneFooter);
  verb->add_option("-o,--output", options->output, "Folder of the run")->type_name("RUN");
  verb->add_flag("--json", options->json, "Print one line of JSON at the end");
  flags->add_to(*verb, keys_of(options->config), {"checkpoint", "train"});
  verb->callback([options, flags] { run_finetune(*flags, *options); });
}

}  // namespace rotary::roformer::cli
