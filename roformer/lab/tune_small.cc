// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/tune_small.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <sstream>

#include "roformer/data/documents.h"
#include "roformer/data/example_batches.h"
#include "roformer/data/glue.h"
#include "roformer/data/random.h"
#include "roformer/tasks/finetune.h"
#include "roformer/tasks/labels.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::roformer::lab {
namespace {

/// Of samples: the same for all variants and seeds.
constexpr std::uint64_t kSampleSeed = 17;
constexpr std::size_t kMinWords = 4;
constexpr std::size_t kMaxWords = 12;

/// A random part of the examples, in random order.
void keep_some(std::vector<Example>& examples, std::int64_t count, Random& random) {
  const auto kept = std::min(static_cast<std::size_t>(count), examples.size());
  for (std::size_t i = 0; i < kept; ++i) {
    const auto rest = static_cast<std::uint32_t>(examples.size() - i);
    std::swap(examples[i], examples[i + random.below(rest)]);
  }
  examples.resize(kept);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Words of the lines that have a suitable number of them.
std::vector<std::vector<std::string>> lines_of(const std::filesystem::path& text) {
  DocumentReader reader({.files = {text}, .format = DocumentFormat::kLines});
  std::vector<std::vector<std::string>> lines;
  for (std::string line; reader.next(line);) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    if (words.size() >= kMinWords && words.size() <= kMaxWords) lines.push_back(std::move(words));
  }
  return lines;
}

/// The pretrained encoder under a new head.
Model classifier_of(const ModelImpl& pretrained, const ExampleSet& train, std::uint64_t seed,
                    at::Device device) {
  Config config = pretrained.config();
  config.task = Task::kSequenceClassification;
  if (train.label_kind == LabelKind::kNumber) {
    set_regression(config);
  } else {
    set_label_names(config, train.labels);
  }
  Model model = make_seeded_model(config, seed, device);
  const at::NoGradGuard no_grad;
  const auto from = pretrained.roformer().named_parameters();
  for (const auto& parameter : model->roformer().named_parameters()) {
    parameter.value().copy_(*from.find(parameter.key()));
  }
  return model;
}

/// All batches of a fine-tuning, so that the batch of a step depends on the step alone.
std::vector<Batch> all_batches(const ExampleSet& train, std::shared_ptr<const Tokenizer> tokenizer,
                               const SmallTuning& tuning, std::uint64_t seed) {
  ExampleBatches stream(std::make_shared<const ExampleSet>(train), std::move(tokenizer),
                        {.rows = tuning.rows,
                         .max_length = static_cast<std::size_t>(tuning.max_length),
                         .seed = seed,
                         .epochs = static_cast<std::uint64_t>(tuning.epochs)});
  std::vector<Batch> batches;
  for (Batch batch; stream.next(batch);) batches.push_back(batch);
  return batches;
}

}  // namespace

std::vector<SmallTask> read_glue_tasks(const std::filesystem::path& folder,
                                       const std::vector<std::string>& names,
                                       std::int64_t max_examples) {
  std::vector<SmallTask> tasks;
  for (const std::string& name : names) {
    const GlueTask* glue = find_glue_task(name);
    if (glue == nullptr) internal::reject("[lab] no task of GLUE: ", name);
    std::string upper(glue->name);
    std::ranges::transform(upper, upper.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    if (upper == "COLA") upper = "CoLA";
    SmallTask task{.name = std::string(glue->name), .metric = std::string(glue->metric)};
    task.train = read_glue(folder / upper / "train.tsv", *glue);
    task.valid = read_glue(folder / upper / "dev.tsv", *glue, task.train.labels);
    Random random(kSampleSeed, tasks.size());
    keep_some(task.train.examples, max_examples, random);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

SmallTask order_task(const std::filesystem::path& text, std::int64_t train_examples,
                     std::int64_t valid_examples, std::uint64_t seed) {
  SmallTask task{.name = "order", .metric = "accuracy"};
  task.train.labels = {"reversed", "in order"};
  Random random(seed, 0);
  for (std::vector<std::string>& words : lines_of(text)) {
    const std::int64_t label = random.below(2);
    if (label == 0) std::ranges::reverse(words);
    task.train.examples.push_back({.first = joined(words), .label = label});
  }
  keep_some(task.train.examples, train_examples + valid_examples, random);
  task.valid = task.train;
  const std::size_t size = task.train.examples.size();
  const auto held_out = static_cast<std::size_t>(valid_examples);
  if (size <= held_out) {
    throw IoError(text.string(), IoError::kNoOffset,
                  internal::concat("must have more than ", held_out, " lines of ", kMinWords,
                                   " to ", kMaxWords, " words, got ", size));
  }
  task.train.examples.resize(size - held_out);
  task.valid.examples.erase(task.valid.examples.begin(),
                            task.valid.examples.end() - static_cast<std::ptrdiff_t>(held_out));
  return task;
}

Metrics tune_small(const ModelImpl& pretrained, const SmallTask& task,
                   std::shared_ptr<const Tokenizer> tokenizer, const SmallTuning& tuning,
                   const std::pair<double, double>& progress, const UnitRun& run) {
  const auto seed = static_cast<std::uint64_t>(run.unit.seed);
  const Model model = classifier_of(pretrained, task.train, seed, run.device);
  const std::vector<Batch> batches = all_batches(task.train, tokenizer, tuning, seed);
  TrainPlan plan;
  plan.name = "tune-" + task.name;
  plan.progress = progress;
  plan.options.steps = static_cast<std::int64_t>(batches.size());
  plan.options.learning_rate = tuning.learning_rate;
  plan.options.schedule.warmup_steps = std::max<std::int64_t>(1, plan.options.steps / 10);
  plan.options.compute_type = compute_type_of(run.device);
  train_model(
      *model, plan,
      [&](std::int64_t step) {
        const Batch& batch = batches[static_cast<std::size_t>(step - 1)];
        return TrainingBatch{.inputs = to_inputs(batch, Task::kSequenceClassification, run.device),
                             .num_labels = count_labels(batch, Task::kSequenceClassification)};
      },
      run);
  return evaluate(*model, task.valid, std::move(tokenizer),
                  {.max_length = static_cast<std::size_t>(tuning.max_length), .rows = 128});
}

}  // namespace rotary::roformer::lab
