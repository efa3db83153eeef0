// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/format.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "explain/text_layout.h"

namespace rotary::explain {

std::string format_number(double value) {
  if (std::fabs(value) < 1e15 && value == std::nearbyint(value))
    return fmt::format("{:.0f}", value);
  return fmt::format("{:.6g}", value);
}

std::string format_approximate(double value) {
  struct Unit {
    double size;
    std::string_view name;
  };
  constexpr std::array<Unit, 3> kUnits{{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}}};
  if (!(std::fabs(value) < 1e15)) return fmt::format("{:.3g}", value);
  for (const Unit& unit : kUnits) {
    if (std::fabs(value) >= unit.size) {
      return fmt::format("{:.3g} {}", value / unit.size, unit.name);
    }
  }
  if (std::fabs(value) >= 1000.0) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string format_si(double value) {
  constexpr std::array<std::string_view, 5> kUnits{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (std::fabs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, kUnits[unit]);
}

std::string format_duration(double ns) {
  constexpr std::array<std::string_view, 4> kUnits{"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  while (ns >= 999.5 && unit + 1 < kUnits.size()) {
    ns /= 1000.0;
    ++unit;
  }
  const int decimals = ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", ns, decimals, kUnits[unit]);
}

std::string format_ranges(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kMaxRanges = 8;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (parts.size() == kMaxRanges) {
      parts.emplace_back("...");
      break;
    }
    parts.push_back(i == last ? fmt::format("{}", numbers[i])
                              : fmt::format("{}-{}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return join(parts, ", ");
}

std::string plural(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace rotary::explain
