// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What an encoding costs: tokens per second and peak memory in training and decoding. Rows of these
// metrics are measurements of a machine: they differ from run to run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "roformer/lab/lab.h"
#include "roformer/lab/training.h"
#include "roformer/model/model.h"

namespace rotary::roformer::lab {

/// Variants of units that measure cost alone begin with it: "cost rope".
inline constexpr std::string_view kCostPrefix = "cost ";

/// Variants of units that try learning rates: "rate rope".
inline constexpr std::string_view kRatePrefix = "rate ";

/// Before training: forgets the peak memory so far, of a GPU.
void reset_training_cost(at::Device device);
/// How often a unit that measures cost alone repeats a measurement.
inline constexpr int kCostRepeats = 5;

/// Rows `metric`, "min_" + metric and "max_" + metric: the median of some measurements, the least
/// and the largest of them.
void add_median(const std::string& metric, std::vector<double> values, const UnitRun& run,
                std::vector<Row>& rows);

/// "train_tokens_per_second", and on a GPU "train_peak_bytes" since reset_training_cost().
void add_training_cost(const Trained& trained, const UnitRun& run, std::vector<Row>& rows);
/// The memory alone.
void add_training_memory(const UnitRun& run, std::vector<Row>& rows);

struct DecodeWork {
  std::int64_t rows = 16;
  std::int64_t prompt = 256;
  /// Decoded one by one after the prompt.
  std::int64_t tokens = 64;
};
/// "decode_tokens_per_second", the median of kCostRepeats, with its least and largest value; and on
/// a GPU "decode_peak_bytes". A model that cannot decode with a
/// cache has a row without a value.
void add_decoding_cost(ModelImpl& model, const DecodeWork& work, const UnitRun& run,
                       std::vector<Row>& rows);

/// Whether a metric is a measurement of the machine rather than a function of the settings.
bool is_cost(std::string_view metric);

}  // namespace rotary::roformer::lab
