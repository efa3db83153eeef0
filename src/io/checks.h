// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared by both file formats: errors with a byte offset, arithmetic without overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace rotary::internal {

/// Maximum number of dimensions (NumPy's limit), so that a malicious shape stays small.
inline constexpr std::size_t kMaxFileRank = 64;

/// Throws IoError.
[[noreturn]] void fail_at(const std::string& source, std::size_t offset,
                          const std::string& message);

/// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

/// Bits of an array of that shape with elements of `bits` bits. Extents must not be negative. None
/// on overflow, even if another extent is 0, so that strides never overflow.
std::optional<std::uint64_t> count_bits(std::span<const std::int64_t> shape, std::uint64_t bits);

/// Reverses the bytes of each element in place.
void swap_bytes(std::span<std::byte> bytes, std::size_t element_size) noexcept;

}  // namespace rotary::internal
