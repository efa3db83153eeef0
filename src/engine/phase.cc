// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "engine/phase.h"

#include <array>

namespace rotary::internal {
namespace {

__extension__ using uint128 = unsigned __int128;

/// 1/(2 pi) as a binary fraction, most significant word first.
constexpr std::array<std::uint64_t, 3> kTurnsPerRadian = {0x28be60db9391054a, 0x7f09d5f47d4d3770,
                                                          0x36d8a5664f10e410};

/// mantissa / (2 pi) * 2^192 as four words, least significant first.
std::array<std::uint64_t, 4> scaled_turns(std::uint64_t mantissa) noexcept {
  std::array<std::uint64_t, 4> words{};
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const uint128 product = static_cast<uint128>(mantissa) * kTurnsPerRadian[2 - i] + carry;
    words[i] = static_cast<std::uint64_t>(product);
    carry = static_cast<std::uint64_t>(product >> 64);
  }
  words[3] = carry;
  return words;
}

/// round(words / 2^shift) as 128 bits, shift > 64; ties go up.
uint128 shifted(const std::array<std::uint64_t, 4>& words, int shift) noexcept {
  if (shift > 256) return 0;
  const auto bit = [&words](int at) {
    return at < 256 ? (words[static_cast<std::size_t>(at / 64)] >> (at % 64)) & 1u : 0u;
  };
  uint128 value = 0;
  for (int at = 0; at < 128; ++at) {
    value |= static_cast<uint128>(bit(shift + at)) << at;
  }
  return value + bit(shift - 1);
}

}  // namespace

Turns to_turns(double radians) noexcept {
  if (radians == 0.0) return {};
  int exponent = 0;
  const double significand = std::frexp(std::fabs(radians), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(significand, 53));
  // |radians| = mantissa * 2^(exponent - 53), so turns * 2^64 = words * 2^(exponent - 53 - 128).
  uint128 fixed = shifted(scaled_turns(mantissa), 181 - exponent);
  if (radians < 0.0) fixed = ~fixed + 1;
  return {static_cast<std::uint64_t>(fixed), static_cast<std::int64_t>(fixed >> 64)};
}

FixedPosition to_fixed(double position) noexcept {
  const double size = std::fabs(position);
  const double whole = std::trunc(size);
  FixedPosition fixed{.count = 0, .rest = 0, .negative = position < 0.0};
  if (whole < 0x1p63) {
    fixed.count = static_cast<std::uint64_t>(whole);
  } else {
    int exponent = 0;
    const double significand = std::frexp(whole, &exponent);
    const int shift = exponent - 53;
    if (shift < 64) fixed.count = static_cast<std::uint64_t>(std::ldexp(significand, 53)) << shift;
  }
  fixed.rest = static_cast<std::uint64_t>((size - whole) * 0x1p64);
  return fixed;
}

}  // namespace rotary::internal
