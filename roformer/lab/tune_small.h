// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Fine-tuning of a small pretrained encoder on tasks of texts, within a unit of a lab.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "roformer/data/examples.h"
#include "roformer/lab/lab.h"
#include "roformer/lab/training.h"
#include "roformer/text/tokenizer.h"

namespace rotary::roformer::lab {

/// A task with its training and validation examples.
struct SmallTask {
  /// "mrpc"
  std::string name{};
  /// Of evaluate() in finetune.h: "f1".
  std::string metric{};
  ExampleSet train{};
  ExampleSet valid{};
};

/// Tasks of GLUE in `folder`/TASK/{train,dev}.tsv; of each at most `max_examples` for training, a
/// sample of its own seed. Throws IoError, std::invalid_argument for a name that is none.
std::vector<SmallTask> read_glue_tasks(const std::filesystem::path& folder,
                                       const std::vector<std::string>& names,
                                       std::int64_t max_examples);

/// A generated task for a corpus of text lines: whether the words of a line are in their order, or
/// in the reverse one. Bags of words do not tell. The same words for the same seed.
SmallTask order_task(const std::filesystem::path& text, std::int64_t train_examples,
                     std::int64_t valid_examples, std::uint64_t seed);

struct SmallTuning {
  std::int64_t epochs = 3;
  std::int64_t rows = 32;
  std::int64_t max_length = 128;
  double learning_rate = 1e-4;
};

/// Fine-tunes a copy of a pretrained model, without dropout, and returns all metrics of its
/// validation examples after the last epoch. The steps are those of a classification from [CLS].
Metrics tune_small(const ModelImpl& pretrained, const SmallTask& task,
                   std::shared_ptr<const Tokenizer> tokenizer, const SmallTuning& tuning,
                   const std::pair<double, double>& progress, const UnitRun& run);

}  // namespace rotary::roformer::lab
