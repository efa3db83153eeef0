// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// cos and sin of an angle in radians with the same bits on every machine: those of the C library
// differ in the last bit from one to the next. For analyses; rotations have their own
// (engine/phase.h).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace rotary::internal {

struct PortableCosSin {
  double cos;
  double sin;
};

/// A sum of two doubles, the second of which is below the last bit of the first.
struct DoubleDouble {
  double high;
  double low;
};

/// a + b, exactly (Knuth).
inline DoubleDouble exact_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double rest = sum - a;
  return {sum, (a - (sum - rest)) + (b - rest)};
}

/// a * b, exactly (Dekker), for magnitudes up to 2^970.
inline DoubleDouble exact_product(double a, double b) noexcept {
  const auto split = [](double x) {
    const double scaled = x * 134217729.0;  // 2^27 + 1
    const double high = scaled - (scaled - x);
    return DoubleDouble{high, x - high};
  };
  const double product = a * b;
  const DoubleDouble x = split(a);
  const DoubleDouble y = split(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

/// angle - k pi/2 for the integer k nearest to angle / (pi/2), and k.
struct QuarterTurns {
  DoubleDouble rest;
  std::int64_t quarters;
};

inline QuarterTurns reduce_to_quarter(double angle) noexcept {
  // pi/2 in three parts of 53 bits.
  constexpr double kFirst = 0x1.921fb54442d18p+0;
  constexpr double kSecond = 0x1.1a62633145c07p-54;
  constexpr double kThird = -0x1.f1976b7ed8fbcp-110;
  const double k = std::nearbyint(angle * 0x1.45f306dc9c883p-1);
  const DoubleDouble first = exact_product(k, kFirst);
  const DoubleDouble second = exact_product(k, kSecond);
  const DoubleDouble a = exact_sum(angle - first.high, -first.low);  // the difference is exact
  const DoubleDouble b = exact_sum(a.high, -second.high);
  const double low = a.low + b.low - second.low - k * kThird;
  return {exact_sum(b.high, low), static_cast<std::int64_t>(k)};
}

/// Errors are below 2e-16. For angles of 2^45 and more, and those that are not finite, it is the C
/// library's.
inline PortableCosSin portable_cos_sin(double angle) noexcept {
  if (!(std::fabs(angle) < 0x1p45)) return {std::cos(angle), std::sin(angle)};
  const auto [rest, quarters] = reduce_to_quarter(angle);
  const double r = rest.high;
  const double square = r * r;
  // Taylor's series of (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4, for |r| <= pi/4; the
  // terms left out change the results by less than 1e-17.
  constexpr std::array<double, 8> kSin{
      1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
      1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
  constexpr std::array<double, 7> kCos{
      1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
      1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0};
  const auto horner = [square](const auto& coefficients) {
    double sum = coefficients[0];
    for (std::size_t i = 1; i < coefficients.size(); ++i) sum = sum * square + coefficients[i];
    return sum;
  };
  const double half = 0.5 * square;
  const double one = 1.0 - half;
  const double c = one + (((1.0 - one) - half) + (square * square * horner(kCos) - r * rest.low));
  const double s = r + (r * square * horner(kSin) + rest.low * one);
  switch (quarters & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

}  // namespace rotary::internal
