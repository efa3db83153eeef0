// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What another implementation answered, in a file:
//
//   {"input_ids": [[..]], "attention_mask": [[..]], "token_type_ids": [[..]], "labels": [..],
//    "logits": [..], "loss": 5.8, "grad_norms": {"roformer.embeddings.LayerNorm.weight": 0.46, ..}}
//
// Inputs and answers other than input_ids may be missing; other keys are passed over.
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

/// How far apart one answer is, and how far it may be.
struct Difference {
  std::string what{};
  double ours = 0.0;  // of logits: where the difference is largest
  double theirs = 0.0;
  double difference = 0.0;  // of norms relative to theirs; 0 for rounding
  double tolerance = 0.0;

  /// Not so for NaN.
  bool fits() const noexcept { return difference <= tolerance; }
};

/// float32 on the CPU: what everybody can repeat.
inline constexpr double kLogitsTolerance = 2e-5;
inline constexpr double kLossTolerance = 1e-6;
inline constexpr double kGradientTolerance = 1e-4;

/// Runs the model forward, and back where there are gradient norms: logits, loss, each norm. Throws
/// IoError that names `source` where model and reference are not about the same thing.
std::vector<Difference> compare(ModelImpl& model, const Reference& reference,
                                const std::string& source);

}  // namespace rotary::roformer::cli
