// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// Training batches of generated problems: made on the host for many steps at once and kept on the
/// device, so that a step of a small model does not wait for the host.
///
///   GeneratedBatches batches(make_rows, {.rows = 128, .seed = 1}, run.device);
///   train_model(*model, plan, std::ref(batches), run);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "roformer/data/batch.h"
#include "roformer/data/random.h"
#include "roformer/lab/training.h"

namespace rotary::roformer::lab {

struct GeneratedOptions {
  /// Of a batch.
  std::int64_t rows = 128;
  std::uint64_t seed = 0;
  /// How many are made at once.
  std::int64_t chunk_steps = 100;
};

/// A MakeBatch. The batch of a step depends on the options and the step alone. Not thread-safe.
class GeneratedBatches {
 public:
  /// Makes that many rows of a causal LM; ids and labels must be below 2^15.
  using MakeRows = std::function<Batch(std::int64_t rows, Random& random)>;

  GeneratedBatches(MakeRows make_rows, const GeneratedOptions& options, at::Device device);

  /// Steps begin at 1.
  TrainingBatch operator()(std::int64_t step);

 private:
  void load(std::int64_t chunk);

  MakeRows make_rows_;
  GeneratedOptions options_;
  at::Device device_;
  std::int64_t chunk_ = -1;
  /// [chunk_steps, rows, length], int16, on the device.
  at::Tensor ids_;
  at::Tensor labels_;
  /// Of each step.
  std::vector<std::int64_t> num_labels_;
};

}  // namespace rotary::roformer::lab
