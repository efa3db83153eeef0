// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The 8-bit floating-point types of the Open Compute Project: what their bits stand for.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rotary::internal {

struct Float8Format {
  int mantissa_bits;
  int bias;
  float max;              // the largest finite number
  std::uint8_t infinity;  // bits without the sign; larger ones are NaN
};

/// e4m3 has no infinity: 0x7f is its only NaN.
inline constexpr Float8Format kE4M3{3, 7, 448.0f, 0x7f};
inline constexpr Float8Format kE5M2{2, 15, 57344.0f, 0x7c};

constexpr float from_float8(const Float8Format& format, std::uint8_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
  const std::uint32_t magnitude = bits & 0x7fu;
  if (magnitude >= format.infinity) {
    const bool is_nan = magnitude > format.infinity || format.infinity == 0x7f;
    return std::bit_cast<float>(sign | (is_nan ? 0x7fc00000u : 0x7f800000u));
  }
  if ((magnitude >> format.mantissa_bits) == 0) {  // subnormal
    const int exponent = 1 - format.bias - format.mantissa_bits;
    const auto step = std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
    const float value = static_cast<float>(magnitude) * step;
    return sign != 0 ? -value : value;
  }
  const auto rebias = static_cast<std::uint32_t>(127 - format.bias) << 23;
  return std::bit_cast<float>(sign | ((magnitude << (23 - format.mantissa_bits)) + rebias));
}

/// All 256 of them.
constexpr std::array<float, 256> float8_values(const Float8Format& format) noexcept {
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = from_float8(format, static_cast<std::uint8_t>(i));
  }
  return values;
}

}  // namespace rotary::internal
