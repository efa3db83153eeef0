// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Positions as they are typed: 0:4096, 17:, -5:3.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rotary::cli {

/// The positions first, first+1, ..., end-1; without an end as many as there are tokens.
struct Range {
  std::int64_t first = 0;
  std::optional<std::int64_t> end{};
};

/// "a:b", "a:" or "a". Nothing where the text is none of them or b < a.
std::optional<Range> parse_range(std::string_view text);

}  // namespace rotary::cli
