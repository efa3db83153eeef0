// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What both file formats need: errors with a place, and arithmetic that cannot overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace rotary::internal {

/// Dimensions of the widest array that is read (NumPy's own limit): the shape of a hostile file
/// stays small.
inline constexpr std::size_t kMaxFileRank = 64;

/// Throws IoError.
[[noreturn]] void fail_at(const std::string& source, std::size_t offset,
                          const std::string& message);

/// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

/// Bits that a row-major array of that shape takes. The extents must not be negative. Absent if it
/// overflows, even where an extent of 0 makes the array empty: strides are then safe to form.
std::optional<std::uint64_t> count_bits(std::span<const std::int64_t> shape, std::uint64_t bits);

/// Reverses the bytes of each element in place.
void swap_bytes(std::span<std::byte> bytes, std::size_t element_size) noexcept;

}  // namespace rotary::internal
