// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/checks.h"

#include <algorithm>
#include <limits>

#include "rotary/error.h"

namespace rotary::internal {

void fail_at(const std::string& source, std::size_t offset, const std::string& message) {
  throw IoError(source, static_cast<std::int64_t>(offset), message);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string result = "[";
  for (const std::int64_t extent : shape) {
    if (result.size() > 1) result += ", ";
    result += std::to_string(extent);
  }
  return result + "]";
}

std::optional<std::uint64_t> count_bits(std::span<const std::int64_t> shape, std::uint64_t bits) {
  // The result must also fit signed offsets.
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent == 0) {
      empty = true;
    } else if (bits > kMax / static_cast<std::uint64_t>(extent)) {
      return std::nullopt;
    } else {
      bits *= static_cast<std::uint64_t>(extent);
    }
  }
  return empty ? 0 : bits;
}

void swap_bytes(std::span<std::byte> bytes, std::size_t element_size) noexcept {
  for (std::size_t at = 0; at + element_size <= bytes.size(); at += element_size) {
    std::reverse(bytes.data() + at, bytes.data() + at + element_size);
  }
}

}  // namespace rotary::internal
