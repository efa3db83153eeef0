// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Two ropes side by side: the numbers behind `rotary diff`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rotary/frequencies.h"
#include "rotary/model.h"
#include "tools/rope_json.h"

namespace rotary::cli {

/// A parameter that is not the same; null where a side does not have it.
struct Difference {
  std::string parameter;
  Json a;
  Json b;
};

/// The pair whose frequencies are farthest apart.
struct FrequencyRatio {
  double largest = 1.0;  // the faster over the slower, 1 or more
  std::int64_t pair = 0;
  std::int64_t axis = 0;
  double a = 0.0;
  double b = 0.0;
};

/// The first whole position at which some pair's phases are more than 0.1 rad apart.
struct Parting {
  std::int64_t position = 0;
  std::int64_t pair = 0;
  std::int64_t axis = 0;
};

enum class Verdict { kSame, kRounding, kDiffer };

struct Comparison {
  std::string name{};
  Verdict verdict = Verdict::kSame;
  std::vector<Difference> parameters{};
  /// False: another number of pairs or axes, so that the frequencies cannot be set side by side.
  bool comparable = true;
  /// Absent where no pair turns on both sides, or not comparable.
  std::optional<FrequencyRatio> ratio{};
  /// Pairs that stand still on one side only.
  std::vector<std::int64_t> still_in_a{};
  std::vector<std::int64_t> still_in_b{};
  /// Absent where the phases never part.
  std::optional<Parting> parting{};
  double scale_ratio = 1.0;          // b over a
  double softmax_scale_ratio = 1.0;  // b over a
};

/// Frequencies for `context` positions in use; 0: the trained length.
Comparison compare(const ModelRope& a, const ModelRope& b, std::int64_t context);

}  // namespace rotary::cli
