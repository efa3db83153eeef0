// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Options of `roformer evaluate`, and its part for language models.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"

namespace rotary::roformer::cli {

struct EvaluateOptions {
  TextOptions text;
  ComputeOptions compute;
  ExampleOptions examples;
  std::vector<std::string> data;
  std::vector<std::int64_t> lengths;
  std::int64_t train_length = 0;
  /// Values of --rope; "model" is the model's own.
  std::vector<std::string> ropes;
  std::size_t tokens = 200000;
  std::int64_t batch_tokens = 8192;
  std::string texts = "long";
  std::string framing = "cls-sep";
  double mask_rate = 0.15;
  std::string mask_unit = "word";
  std::uint64_t seed = 0;
  /// Of GLUE's files; empty: by the file.
  std::string task;
  std::size_t stride = 0;
  std::string predictions;
  bool json = false;
};

/// The model with the i-th of `ropes`, or its own without any, on the device of the run.
TextModel open_model_to_evaluate(const EvaluateOptions& options, std::size_t i);

/// Loss, perplexity and accuracy by length.
void evaluate_language(const EvaluateOptions& options, const TextModel& text);
/// Loss by length and rope, for several ropes; `first` is open_model_to_evaluate(options, 0).
void compare_ropes(const EvaluateOptions& options, TextModel first);
void add_language_options(CLI::App& verb, EvaluateOptions& options);

}  // namespace rotary::roformer::cli
