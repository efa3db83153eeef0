// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Numbers, durations, ranges and plurals as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::explain {

/// A parameter: whole numbers without exponent (500000), others to six digits.
std::string format_number(double value);

/// Three digits and a unit in words: 6.28, 48300, 2.56 million.
std::string format_approximate(double value);

/// Three digits and an SI prefix: 6.28, 48.3k, 2.56M.
std::string format_si(double value);

/// A time to three digits: "348 ns", "5.80 us", "12.1 ms".
std::string format_duration(double ns);

/// Ascending numbers as ranges: "0-3, 7, 9-11"; "..." after the eighth range.
std::string format_ranges(const std::vector<std::int64_t>& numbers);

/// "1 pair", "12 pairs".
std::string plural(std::int64_t count, std::string_view noun);

}  // namespace rotary::explain
