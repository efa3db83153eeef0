// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/arguments.h"

#include <fmt/core.h>

#include <charconv>
#include <system_error>

#include "tools/commands.h"

namespace rotary::cli {
namespace {

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  // Beyond any context, and safe from overflow.
  constexpr std::int64_t kMax = std::int64_t{1} << 60;
  if (error != std::errc{} || stopped != end || value > kMax || value < -kMax) return std::nullopt;
  return value;
}

}  // namespace

std::optional<PositionRange> parse_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto first = parse_integer(text.substr(0, colon));
  if (!first) return std::nullopt;
  PositionRange range{.first = *first};
  if (colon == std::string_view::npos || colon + 1 == text.size()) return range;
  range.end = parse_integer(text.substr(colon + 1));
  if (!range.end || *range.end < range.first) return std::nullopt;
  return range;
}

std::int64_t parse_context(const std::string& text) {
  if (text.empty()) return 0;
  const auto value = parse_integer(text);
  if (!value || *value <= 0) {
    throw UsageError(fmt::format("--context must be a positive whole number, got '{}'", text));
  }
  return *value;
}

}  // namespace rotary::cli
