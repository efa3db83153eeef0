// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// How fast the rotation is meant to be, and whether it is. docs/performance.md says why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/rows.h"

namespace rotary::cli {

enum class Outcome { kMet, kMissed, kNoLimit };

/// One target, with the row that is farthest from it.
struct Target {
  std::string name;      // "fp32 out of cache, out of place"
  std::string measured;  // "1.04 x copy"
  std::string limit;     // "at most 1.08"; empty where none is set
  Outcome outcome = Outcome::kNoLimit;
  std::string where;  // "4096x(32+8)x128 fp32 half in_place ready, 1 thread"
};

/// Those that the rows say something about. `instructions` is that of cpu_target(): 16-bit types
/// have limits of their own with AVX-512 and with NEON.
std::vector<Target> judge(const std::vector<measure::Row>& rows, std::string_view instructions);

}  // namespace rotary::cli
