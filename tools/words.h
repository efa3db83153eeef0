// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Numbers and lists as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::cli {

std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// A parameter: whole numbers without exponent (500000), others to six digits.
std::string number(double value);

/// A wavelength or a ratio, to three digits: 6.28, 48300, 2.56 million.
std::string rough(double value);

/// The same in few columns: 6.28, 48k, 2.56M.
std::string brief(double value);

/// A time to three digits: "348 ns", "5.80 us", "12.1 ms".
std::string duration(double ns);

/// Ascending numbers as ranges: "0-3, 7, 9-11"; cut to "..." after many.
std::string ranges(const std::vector<std::int64_t>& numbers);

/// "1 pair", "12 pairs".
std::string count_of(std::int64_t count, std::string_view noun);

}  // namespace rotary::cli
