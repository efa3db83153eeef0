// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Results of another implementation, in a file:
//
//   {"input_ids": [[..]], "attention_mask": [[..]], "token_type_ids": [[..]], "labels": [..],
//    "logits": [..], "loss": 5.8, "grad_norms": {"roformer.embeddings.LayerNorm.weight": 0.46, ..}}
//
// All but input_ids may be missing; other keys are ignored.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "roformer/model/model.h"

namespace rotary::roformer::cli {

struct Reference {
  Inputs inputs{};
  /// float64
  std::optional<at::Tensor> logits{};
  std::optional<double> loss{};
  std::map<std::string, double> gradient_norms{};
};
/// Throws IoError.
Reference read_reference(const std::filesystem::path& path);

/// The difference of one result, and its tolerance.
struct Difference {
  std::string what{};
  double ours = 0.0;  // of logits: the element with the largest difference
  double theirs = 0.0;
  double difference = 0.0;  // of norms: relative to theirs; 0 for mere rounding
  double tolerance = 0.0;

  /// False for NaN.
  bool fits() const noexcept { return difference <= tolerance; }
};

/// float32 on the CPU, which is reproducible everywhere.
inline constexpr double kLogitsTolerance = 2e-5;
inline constexpr double kLossTolerance = 1e-6;
inline constexpr double kGradientTolerance = 1e-4;

/// Runs the model forward, and backward if there are gradient norms, and compares logits, loss and
/// each norm. Throws IoError that names `source` if model and reference do not match.
std::vector<Difference> compare(ModelImpl& model, const Reference& reference,
                                const std::string& source);

}  // namespace rotary::roformer::cli
