// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Comparison of two ropes, as `rotary diff` reports it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/rope_json.h"
#include "rotary/frequencies.h"
#include "rotary/model.h"

namespace rotary::explain {

/// A parameter that differs; null on the side that does not have it.
struct ParameterDifference {
  std::string parameter;
  Json a;
  Json b;
};

/// The pair with the largest ratio of frequencies.
struct FrequencyRatio {
  double largest = 1.0;  // larger over smaller frequency, at least 1
  std::int64_t pair = 0;
  std::int64_t axis = 0;
  double a = 0.0;
  double b = 0.0;
};

/// The first integer position at which the phases of some pair differ by more than 0.1 rad.
struct PhaseDivergence {
  std::int64_t position = 0;
  std::int64_t pair = 0;
  std::int64_t axis = 0;
};

enum class Verdict { kSame, kRounding, kDiffer };

struct Comparison {
  std::string name{};
  Verdict verdict = Verdict::kSame;
  std::vector<ParameterDifference> parameters{};
  /// False if the numbers of pairs or axes differ: frequencies cannot be compared.
  bool comparable = true;
  /// Absent if no pair rotates on both sides, or not comparable.
  std::optional<FrequencyRatio> ratio{};
  /// Pairs that are constant (not rotated) on one side only.
  std::vector<std::int64_t> constant_in_a{};
  std::vector<std::int64_t> constant_in_b{};
  /// Absent if the phases never diverge.
  std::optional<PhaseDivergence> divergence{};
  double scale_ratio = 1.0;          // b over a
  double softmax_scale_ratio = 1.0;  // b over a
};

/// `context`: the context length that frequencies are made for; 0 is the trained length.
Comparison compare(const ModelRope& a, const ModelRope& b, std::int64_t context);

/// The same for frequencies that were made before.
Comparison compare(const ModelRope& a, const Frequencies& fa, const ModelRope& b,
                   const Frequencies& fb);

/// An element of "ropes" of `rotary diff --json`.
Json comparison_json(const Comparison& rope);

}  // namespace rotary::explain
