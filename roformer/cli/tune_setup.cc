// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/tune_setup.h"

#include <ATen/Functions.h>

#include <filesystem>
#include <variant>

#include "roformer/checkpoint/checkpoint.h"
#include "roformer/cli/task_options.h"
#include "roformer/tasks/labels.h"
#include "rotary/error.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;

std::string unless_auto(const std::string& word) { return word == "auto" ? std::string() : word; }

ExampleOptions example_options(const TuneConfig& config) {
  return {.format = unless_auto(config.format),
          .columns = {.label = config.label, .first = config.text, .second = config.second_text},
          .zero_types = config.zero_types};
}

Task task_of(const TuneConfig& config, const Labelled& data) {
  if (std::holds_alternative<TagSet>(data)) return Task::kTokenClassification;
  if (std::holds_alternative<QuestionSet>(data)) return Task::kQuestionAnswering;
  if (config.task == "classification") return Task::kSequenceClassification;
  const auto* set = std::get_if<ExampleSet>(&data);
  if (config.task == "matching" || set == nullptr || set->pairs) return Task::kPairMatching;
  return Task::kSequenceClassification;
}

}  // namespace

TextOptions text_options(const TuneConfig& config) {
  return {.checkpoint = config.checkpoint,
          .vocabulary = config.vocab,
          .dictionary = config.dict,
          .tokenizer = unless_auto(config.tokenizer)};
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
                       std::span<const std::string> labels) {
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
