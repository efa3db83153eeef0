// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Checks of arguments that the functions of rotary/analysis.h share.
#pragma once

#include <cstdint>

#include "rotary/frequencies.h"
#include "support/message.h"

namespace rotary::internal {

inline constexpr std::int64_t kMaxAnalysisPosition = std::int64_t{1} << 40;

inline void require_frequencies(const char* function, const Frequencies& frequencies) {
  const auto size = static_cast<std::size_t>(frequencies.pairs * frequencies.axes);
  if (frequencies.pairs < 1 || frequencies.axes < 1 || frequencies.values.size() != size ||
      (!frequencies.growth.empty() && frequencies.growth.size() != size)) {
    reject("[", function, "] frequencies must be a matrix [pairs x axes] with at least one pair");
  }
}

inline void require_one_axis(const char* function, const Frequencies& frequencies) {
  require_frequencies(function, frequencies);
  if (frequencies.axes != 1) {
    reject("[", function, "] frequencies must have one axis, got ", frequencies.axes);
  }
}

inline void require_range(const char* function, const char* what, std::int64_t value,
                          std::int64_t lowest, std::int64_t highest) {
  if (value < lowest || value > highest) {
    reject("[", function, "] ", what, " must be ", lowest, " to ", highest, ", got ", value);
  }
}

}  // namespace rotary::internal
