// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/tune_setup.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <variant>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/commands.h"
#include "roformer/cli/task_options.h"
#include "roformer/tasks/labels.h"
#include "roformer/text/lines.h"
#include "roformer/train/ranks.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;

std::string unless_auto(const std::string& word) { return word == "auto" ? std::string() : word; }

/// Null if the files are not GLUE's.
const GlueTask* glue_task_of_run(const TuneConfig& config) {
  if (config.format != "glue") return nullptr;
  const bool is_named = find_glue_task(config.task) != nullptr;
  return glue_task_of(is_named ? config.task : std::string(), config.train);
}

ExampleOptions example_options(const TuneConfig& config) {
  const bool numbers = config.task == "regression";
  return {.format = unless_auto(config.format),
          .columns = {.label = config.label,
                      .first = config.text,
                      .second = config.second_text,
                      .label_kind = numbers ? LabelKind::kNumber : LabelKind::kClass},
          .zero_types = config.zero_types,
          .glue = glue_task_of_run(config)};
}

Task task_of(const TuneConfig& config, const Labelled& data) {
  if (std::holds_alternative<TagSet>(data)) return Task::kTokenClassification;
  if (std::holds_alternative<QuestionSet>(data)) return Task::kQuestionAnswering;
  const auto* set = std::get_if<ExampleSet>(&data);
  if (set == nullptr || config.task == "matching") return Task::kPairMatching;
  return set->pairs && config.task == "auto" ? Task::kPairMatching : Task::kSequenceClassification;
}

/// Throws IoError if there is nothing to tell apart.
void check_classes(const Labelled& data, const std::string& path) {
  const auto* set = std::get_if<ExampleSet>(&data);
  if (set == nullptr || set->label_kind != LabelKind::kClass || set->labels.size() > 1) return;
  throw IoError(path, IoError::kNoOffset,
                "all examples are of class " + in_quotes(set->labels.front()) +
                    ": there must be at least two");
}

}  // namespace

void settle_glue(TuneConfig& config) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(config.train, ignored);
  const bool is_named = find_glue_task(config.task) != nullptr;
  if (!is_named && config.format != "glue" && !is_folder) return;
  if (config.format != "auto" && config.format != "glue") {
    throw UsageError("--format must be glue for " +
                     (is_named ? "--task " + config.task : config.train) + ", got " +
                     config.format);
  }
  config.format = "glue";
  const GlueTask* task = glue_task_of_run(config);
  if (config.task == "auto") config.task = task->name;
  if (!is_folder) return;
  const fs::path folder = config.train;
  config.train = (folder / "train.tsv").string();
  if (config.folds > 0) return;
  const auto add = [&](std::string& path, const char* name) {
    if (path.empty() && fs::exists(folder / name, ignored)) path = (folder / name).string();
  };
  add(config.valid, "dev.tsv");
  add(config.test, "test.tsv");
}

void check_task(const TuneConfig& config) {
  if (config.format == "triples" && config.task != "auto" && config.task != "matching") {
    throw UsageError("--task must be matching for triples, got " + config.task);
  }
  if (config.format == "glue" && (config.task == "tokens" || config.task == "questions")) {
    throw UsageError("--task must be one of texts or pairs for files of GLUE, got " + config.task);
  }
}

TextOptions text_options(const TuneConfig& config) {
  return {.checkpoint = config.checkpoint,
          .vocabulary = config.vocab,
          .dictionary = config.dict,
          .tokenizer = unless_auto(config.tokenizer)};
}

at::Device device_of_run(const TuneConfig& config) {
  const at::Device device = device_of(ComputeOptions{.device = unless_auto(config.device)});
  const RankEnvironment environment = read_rank_environment();
  const bool is_chosen = device.is_cpu() || device.has_index() || environment.size == 1;
  return is_chosen ? device : gpu_of_rank(environment);
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
                                     .rows = 2 * config.batch,
                                     .stride = static_cast<std::size_t>(config.stride)},
                         .seed = config.seed,
                         .metric = unless_auto(config.metric)};
  const GlueTask* glue = glue_task_of_run(config);
  if (tuning.metric.empty() && glue != nullptr) tuning.metric = glue->metric;
  TrainOptions& train = tuning.train;
  train.learning_rate = config.learning_rate;
  train.schedule.shape = config.schedule == "constant" ? ScheduleShape::kConstant
                         : config.schedule == "cosine" ? ScheduleShape::kCosine
                                                       : ScheduleShape::kLinear;
  train.adamw.weight_decay = config.weight_decay;
  train.clip_norm = config.clip_norm;
  train.freeze = config.freeze;
  train.thaw_at = config.thaw_at;
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
                       std::span<const std::string> labels) {
  const ExampleOptions options = example_options(config);
  if (are_triples(options)) return read_triples(path);
  if (config.task == "questions") return read_questions(path);
  const bool columns = config.format == "conll" ||
                       (config.format == "auto" && fs::path(path).extension() == ".conll");
  if (config.task == "tokens" || columns) return read_tags(path, options, labels);
  return read_examples(path, options, labels);
}

bool are_unlabelled(const Labelled& data) {
  const auto* set = std::get_if<ExampleSet>(&data);
  return set != nullptr && set->label_kind == LabelKind::kNone;
}

void check_metric(const TuneConfig& config, const Labelled& data) {
  const std::vector<std::string> known = metric_names(data);
  if (config.metric == "auto" || std::ranges::find(known, config.metric) != known.end()) return;
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  throw UsageError("--metric must be auto or one of " + list + " for " + config.train + ", got " +
                   config.metric);
}

std::vector<std::string> labels_of(const Labelled& data) {
  if (const auto* set = std::get_if<ExampleSet>(&data)) return set->labels;
  if (const auto* set = std::get_if<TagSet>(&data)) return set->labels;
  return {};
}

Model make_task_model(const TuneConfig& tune, const Labelled& data, const Vocabulary& vocabulary,
                      std::uint64_t seed) {
  const CheckpointFiles files = find_checkpoint(tune.checkpoint);
  Config config = read_config(files.config);
  check_vocabulary(vocabulary, config);
  try {
    apply_rope_change({.rope = tune.rope, .context = tune.context}, config);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  config.task = task_of(tune, data);
  config.pair_pooling = tune.pooling == "cls" ? Pooling::kCls : Pooling::kMean;
  const auto* examples = std::get_if<ExampleSet>(&data);
  check_classes(data, tune.train);
  if (const auto labels = labels_of(data); !labels.empty()) {
    set_label_names(config, labels);
  } else if (examples != nullptr) {
    set_regression(config);
  } else {
    // Of a pair: the probability of a match. Of an answer: its first and last token.
    config.num_labels = config.task == Task::kQuestionAnswering ? 2 : 1;
  }
  if (tune.dropout >= 0) {
    config.hidden_dropout_prob = tune.dropout;
    config.attention_probs_dropout_prob = tune.dropout;
  }
  const bool new_rotation = tune.rope_learn != "auto";
  if (new_rotation) config.rope_learn = rope_learn_of(tune.rope_learn);
  const TensorMap tensors = read_weights(files.weights);
  at::manual_seed(seed);
  Model model = make_model_for(tensors, config, files.weights);
  const LoadReport report = load_weights(*model, tensors, files.weights.string());
  for (const std::string& name : report.missing) {
    if (new_rotation && name.find(".rotation.") != std::string::npos) continue;
    if (!name.starts_with("classifier.") && !name.starts_with("qa_outputs.")) {
      throw IoError(files.weights.string(), IoError::kNoOffset, "no tensor " + name);
    }
  }
  model->to(device_of_run(tune));
  model->set_compute_type(type_of_run(tune));
  return model;
}

}  // namespace rotary::roformer::cli
