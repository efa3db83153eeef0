// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Values of command-line options: ranges of positions, context lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rotary::cli {

/// The positions first, first+1, ..., end-1; without an end, one per token.
struct PositionRange {
  std::int64_t first = 0;
  std::optional<std::int64_t> end{};
};

/// "a:b", "a:" or "a" (0:4096, 17:, -5:3). None for other text or b < a.
std::optional<PositionRange> parse_range(std::string_view text);

/// The value of --context: a positive integer; empty text is 0. Throws UsageError.
std::int64_t parse_context(const std::string& text);

}  // namespace rotary::cli
