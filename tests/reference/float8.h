// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The 8-bit floating-point types of the Open Compute Project, by search among their 127 magnitudes:
// round to nearest, ties to even, saturating.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rotary/tensor.h"

namespace rotary::reference {

struct Float8 {
  int mantissa_bits;
  int bias;
  std::uint8_t largest;  // bits of the largest finite number
};

inline Float8 float8_of(DType dtype) {
  return dtype == DType::kFloat8E4M3 ? Float8{3, 7, 0x7e} : Float8{2, 15, 0x7b};
}

inline bool is_nan_float8(DType dtype, std::uint8_t bits) {
  return (bits & 0x7f) > (dtype == DType::kFloat8E4M3 ? 0x7e : 0x7c);
}

inline double from_float8(DType dtype, std::uint8_t bits) {
  if (is_nan_float8(dtype, bits)) return std::nan("");
  const auto [mantissa_bits, bias, largest] = float8_of(dtype);
  const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
  if (dtype == DType::kFloat8E5M2 && (bits & 0x7f) == 0x7c) return sign * HUGE_VAL;
  const int one = 1 << mantissa_bits;
  const int exponent = (bits & 0x7f) >> mantissa_bits;
  const int fraction = bits & (one - 1);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias - mantissa_bits)
                       : sign * std::ldexp(one + fraction, exponent - bias - mantissa_bits);
}

inline std::uint8_t to_float8(DType dtype, float value) {
  if (std::isnan(value)) return 0x7f;
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const double size = std::fabs(static_cast<double>(value));
  const std::uint8_t largest = float8_of(dtype).largest;
  if (size >= from_float8(dtype, largest)) return static_cast<std::uint8_t>(sign | largest);
  std::uint8_t below = 0;  // the largest that is not larger
  for (int step = 64; step > 0; step /= 2) {
    const auto next = static_cast<std::uint8_t>(below + step);
    if (next < largest && from_float8(dtype, next) <= size) below = next;
  }
  const double under = size - from_float8(dtype, below);
  const double over = from_float8(dtype, static_cast<std::uint8_t>(below + 1)) - size;
  const bool up = over < under || (over == under && below % 2 == 1);
  return static_cast<std::uint8_t>(sign | (below + (up ? 1 : 0)));
}

}  // namespace rotary::reference
