// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From the config of a fine-tuning run to its options, data and model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "roformer/cli/text_model.h"
#include "roformer/model/model.h"
#include "roformer/tasks/finetune.h"
#include "roformer/tasks/tune_config.h"
#include "roformer/text/vocabulary.h"

namespace rotary::roformer::cli {

struct TuneOptions {
  TuneConfig config;
  std::string output;
  bool json = false;
};

/// Fills in what files of GLUE imply: format and task, and the three files of a folder. Throws
/// UsageError for a folder that is none of GLUE's.
void settle_glue(TuneConfig& config);
/// Throws UsageError if the format does not have what the task needs.
void check_task(const TuneConfig& config);

TextOptions text_options(const TuneConfig& config);
/// With several processes, each has a GPU of its own.
at::Device device_of_run(const TuneConfig& config);
at::ScalarType type_of_run(const TuneConfig& config);
FinetuneOptions finetune_options(const TuneConfig& config);

/// `labels` as in read_tsv().
Labelled read_labelled(const std::string& path, const TuneConfig& config,
                       std::span<const std::string> labels = {});
/// Whether they are examples without labels.
bool are_unlabelled(const Labelled& data);
/// Throws UsageError for a metric that such data does not have.
void check_metric(const TuneConfig& config, const Labelled& data);
/// Names of the classes; empty for numbers, triples and questions.
std::vector<std::string> labels_of(const Labelled& data);

/// The encoder of the checkpoint with a new head for the task, on the device of the run.
Model make_task_model(const TuneConfig& tune, const Labelled& data, const Vocabulary& vocabulary,
                      std::uint64_t seed);

}  // namespace rotary::roformer::cli
