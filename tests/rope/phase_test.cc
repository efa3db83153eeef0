// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The fixed-point phase against MPFR, and its cosine and sine against long double.

#include "engine/phase.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "reference/real.h"

namespace rotary::internal::phase_test {
namespace {

using reference::Real;

const Real& two_pi() {
  static const Real kValue = 2 * Real::pi();
  return kValue;
}
Real unsigned_real(std::uint64_t value) {
  return Real(static_cast<std::int64_t>(value >> 1)) * 2 + static_cast<int>(value & 1);
}
/// Turns per position, in units of 2^-64.
Real units_of(Turns turns) {
  return Real(turns.whole) * Real(0x1p64) + unsigned_real(turns.fraction);
}
/// Distance of two phases modulo one turn, in units of 2^-64 turns.
Real distance(std::uint64_t phase, const Real& turns) {
  const Real wrapped = (turns - floor(turns)) * Real(0x1p64);
  const Real apart = abs(unsigned_real(phase) - wrapped);
  return std::min(apart, Real(0x1p64) - apart);
}

/// Doubles of every size up to kMaxRadians, both signs, with full significands.
std::vector<double> radians_to_try() {
  std::vector<double> values = {0.0,
                                -0.0,
                                1.0,
                                std::numbers::pi,
                                2.0 * std::numbers::pi,
                                1e-4,
                                1e-300,
                                kMaxRadians,
                                std::nextafter(kMaxRadians, 0.0),
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::min(),
                                0x1.fffffffffffffp-1023};
  // Where the result steps from 0 to 1 unit: 2^-65 turns, and its neighbours.
  const double half_unit = std::numbers::pi * 0x1p-64;
  for (const double value : {half_unit, 3.0 * half_unit, 5.0 * half_unit}) {
    for (const double beside : {0.0, 1.0}) values.push_back(std::nextafter(value, beside));
    values.push_back(value);
  }
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> significand(0.5, 1.0);
  for (int exponent = -90; exponent <= 31; ++exponent) {
    for (int i = 0; i < 40; ++i) values.push_back(std::ldexp(significand(random), exponent));
  }
  for (int exponent = -1074; exponent < -90; exponent += 7) {
    values.push_back(std::ldexp(significand(random), exponent));
  }
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

TEST(ToTurns, IsTheNearestFixedPointNumber) {
  for (const double radians : radians_to_try()) {
    const Real expected = Real(radians) / two_pi() * Real(0x1p64);
    // Beside the half: what 192 digits of 1/(2 pi) leave, below 2^-90.
    EXPECT_LE(abs(units_of(to_turns(radians)) - expected), Real(0.5) + Real(0x1p-90)) << radians;
  }
}

TEST(ToTurns, IsOdd) {
  for (const double radians : radians_to_try()) {
    const Turns plus = to_turns(radians);
    const Turns minus = to_turns(-radians);
    EXPECT_EQ(units_of(minus), -units_of(plus)) << radians;
  }
}

std::vector<Turns> turns_to_try() {
  std::vector<Turns> turns;
  for (const double f : {1.0, 0.1, 1e-4, 1.2e-7, 2.0 * std::numbers::pi, 100.0, 1e9, 0x1p31}) {
    turns.push_back(to_turns(f));
    turns.push_back(to_turns(-f));
  }
  return turns;
}

TEST(PhaseAt, RealAndIntegerAgreeAtWholeNumbers) {
  std::vector<std::int64_t> positions = {0, 1, 39001, 131071, 1048575, (1 << 24) - 1};
  for (int bit = 24; bit < 63; ++bit) {
    positions.push_back(std::int64_t{1} << bit);
    // Whole numbers that a double holds: 53 significant bits.
    positions.push_back((std::int64_t{1} << bit) + (std::int64_t{1} << std::max(0, bit - 52)));
  }
  positions.push_back(std::numeric_limits<std::int64_t>::max() - 1023);
  for (const Turns turns : turns_to_try()) {
    for (const std::int64_t p : positions) {
      ASSERT_EQ(static_cast<std::int64_t>(static_cast<double>(p)), p);
      EXPECT_EQ(phase_at(static_cast<double>(p), turns), phase_at(p, turns)) << p;
      EXPECT_EQ(phase_at(static_cast<double>(-p), turns), phase_at(-p, turns)) << p;
    }
    EXPECT_EQ(phase_at(-0x1p63, turns), phase_at(std::numeric_limits<std::int64_t>::min(), turns));
  }
}

// Beyond 64 bits, integers count modulo 2^64.
TEST(PhaseAt, WrapsBeyond64Bits) {
  for (const Turns turns : turns_to_try()) {
    EXPECT_EQ(phase_at(0x1p63, turns), (std::uint64_t{1} << 63) * turns.fraction);
    EXPECT_EQ(phase_at(0x1.8p64, turns), (std::uint64_t{1} << 63) * turns.fraction);
    EXPECT_EQ(phase_at(0x1p64, turns), 0u);
    EXPECT_EQ(phase_at(0x1p200, turns), 0u);
    EXPECT_EQ(phase_at(std::numeric_limits<double>::max(), turns), 0u);
    EXPECT_EQ(phase_at(0x1.0000000000001p64, turns), (std::uint64_t{1} << 12) * turns.fraction);
  }
}

TEST(PhaseAt, IsOdd) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> position(-1e6, 1e6);
  for (const Turns turns : turns_to_try()) {
    for (int i = 0; i < 200; ++i) {
      const double p = position(random);
      EXPECT_EQ(phase_at(-p, turns) + phase_at(p, turns), 0u) << p;
      const auto whole = static_cast<std::int64_t>(p);
      EXPECT_EQ(phase_at(-whole, turns) + phase_at(whole, turns), 0u) << whole;
    }
    EXPECT_EQ(phase_at(0.0, turns), 0u);
    EXPECT_EQ(phase_at(-0.0, turns), 0u);
  }
}

// Error against the frequency in radians, in units of 2^-64 turns: half a unit for each unit of
// position, one for the truncated product, and the frequency in turns where a fraction finer than
// 2^-64 is dropped.
TEST(PhaseAt, IsPositionTimesFrequency) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> fraction(0.0, 1.0);
  for (const double f : {1.0, 0.37, 1e-4, 3e-7, 2.0 * std::numbers::pi, 1000.0, 0x1p31}) {
    for (int exponent = -80; exponent <= 60; exponent += 2) {
      const double p = std::ldexp(fraction(random), exponent);
      const Real turns = Real(p) * Real(f) / two_pi();
      const Real bound = Real(p) / 2 + 1 + Real(f) / two_pi();
      EXPECT_LE(distance(phase_at(p, to_turns(f)), turns), bound) << p << " * " << f;
      EXPECT_LE(distance(phase_at(-p, to_turns(f)), -turns), bound) << p << " * " << f;
      const auto whole = static_cast<std::int64_t>(p);
      EXPECT_LE(distance(phase_at(whole, to_turns(f)), Real(whole) * Real(f) / two_pi()),
                Real(whole) / 2)
          << whole << " * " << f;
    }
  }
}

/// Largest errors of cos_sin over `count` phases spread evenly with changing low bits.
struct Errors {
  long double cos = 0.0L;
  long double sin = 0.0L;
};
template <typename T>
Errors sweep(std::uint64_t count) {
  constexpr long double kRadians = 2.0L * std::numbers::pi_v<long double> * 0x1p-64L;
  const std::uint64_t step = std::numeric_limits<std::uint64_t>::max() / count | 1;
  Errors errors;
  std::uint64_t phase = 0;
  for (std::uint64_t i = 0; i < count; ++i, phase += step) {
    const CosSin<T> z = cos_sin<T>(phase);
    const long double angle = kRadians * static_cast<long double>(static_cast<std::int64_t>(phase));
    errors.cos = std::max(errors.cos, std::fabs(static_cast<long double>(z.cos) - std::cos(angle)));
    errors.sin = std::max(errors.sin, std::fabs(static_cast<long double>(z.sin) - std::sin(angle)));
  }
  return errors;
}

/// As phase.h claims. Float was tried at all 2^32 upper halves (6.95e-8), double at 6e7 phases
/// (1.27e-16).
constexpr long double kFloatBound = 7.0e-8L;
constexpr long double kDoubleBound = 1.4e-16L;

TEST(CosSin, FloatIsWithinItsBound) {
  const Errors errors = sweep<float>(1 << 20);
  EXPECT_LT(errors.cos, kFloatBound);
  EXPECT_LT(errors.sin, kFloatBound);
  // The bound is tight.
  EXPECT_GT(std::max(errors.cos, errors.sin), kFloatBound / 2);
}

TEST(CosSin, DoubleIsWithinItsBound) {
  const Errors errors = sweep<double>(1 << 20);
  EXPECT_LT(errors.cos, kDoubleBound);
  EXPECT_LT(errors.sin, kDoubleBound);
  EXPECT_GT(std::max(errors.cos, errors.sin), kDoubleBound / 2);
}

template <typename T>
void expect_exact_quarters() {
  const std::uint64_t quarter = std::uint64_t{1} << 62;
  const std::vector<std::pair<T, T>> expected = {
      {T(1), T(0)}, {T(0), T(1)}, {T(-1), T(0)}, {T(0), T(-1)}};
  for (std::uint64_t i = 0; i < 4; ++i) {
    const CosSin<T> z = cos_sin<T>(i * quarter);
    EXPECT_EQ(z.cos, expected[i].first) << i;
    EXPECT_EQ(z.sin, expected[i].second) << i;
  }
  const CosSin<T> zero = cos_sin<T>(0);
  EXPECT_FALSE(std::signbit(zero.sin));
}

TEST(CosSin, QuarterTurnsAreExact) {
  expect_exact_quarters<float>();
  expect_exact_quarters<double>();
}

// cos is even and sin is odd, bit for bit. For float this holds if the low 32 bits of the phase are
// zero: it truncates them downwards, and the two may then differ by one rounding.
TEST(CosSin, IsSymmetric) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t phase = random();
    const CosSin<double> plus = cos_sin<double>(phase);
    const CosSin<double> minus = cos_sin<double>(~phase + 1);
    EXPECT_EQ(plus.cos, minus.cos) << phase;
    EXPECT_EQ(plus.sin, -minus.sin) << phase;
    const std::uint64_t top = phase >> 32 << 32;
    EXPECT_EQ(cos_sin<float>(top).cos, cos_sin<float>(~top + 1).cos) << phase;
    EXPECT_EQ(cos_sin<float>(top).sin, -cos_sin<float>(~top + 1).sin) << phase;
    EXPECT_NEAR(cos_sin<float>(phase).cos, cos_sin<float>(~phase + 1).cos, 0x1p-24) << phase;
    EXPECT_NEAR(cos_sin<float>(phase).sin, -cos_sin<float>(~phase + 1).sin, 0x1p-24) << phase;
  }
}

// The boundaries between quadrants, from both sides.
TEST(CosSin, IsContinuousAtEighths) {
  for (std::uint64_t eighth = 1; eighth < 8; eighth += 2) {
    const std::uint64_t at = eighth << 61;
    for (const std::uint64_t phase : {at - 1, at, at + 1, at - (std::uint64_t{1} << 32)}) {
      const double angle = static_cast<double>(eighth) * std::numbers::pi / 4.0;
      EXPECT_NEAR(cos_sin<double>(phase).cos, std::cos(angle), 2e-9);
      EXPECT_NEAR(cos_sin<float>(phase).cos, std::cos(angle), 2e-7);
      EXPECT_NEAR(cos_sin<float>(phase).sin, std::sin(angle), 2e-7);
    }
    EXPECT_NEAR(cos_sin<double>(at - 1).cos, cos_sin<double>(at).cos, 3e-16);
    EXPECT_NEAR(cos_sin<double>(at - 1).sin, cos_sin<double>(at).sin, 3e-16);
  }
}

}  // namespace
}  // namespace rotary::internal::phase_test
