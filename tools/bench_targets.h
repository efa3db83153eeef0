// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Performance targets of the rotation (docs/performance.md), checked against measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/measure/measurement.h"

namespace rotary::cli {

enum class Outcome { kMet, kMissed, kNoLimit };

/// A target and the worst row that it applies to.
struct TargetResult {
  std::string name;      // "fp32 out of cache, out of place"
  std::string measured;  // "1.04 x copy"
  std::string limit;     // "at most 1.08"; empty without a limit
  Outcome outcome = Outcome::kNoLimit;
  std::string row;  // "4096x(32+8)x128 fp32 half in_place ready, 1 thread"
};

/// The targets that apply to some row. `instructions` is cpu_target(): limits of 16-bit types
/// depend on it.
std::vector<TargetResult> check_targets(const std::vector<measure::Measurement>& rows,
                                        std::string_view instructions);

}  // namespace rotary::cli
