// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "support/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

namespace rotary::internal {
namespace {

/// The two formats: a sign, an exponent with its bias, and kFractionBits.
struct Float16 {
  static constexpr int kFractionBits = 10;
  static constexpr int kBias = 15;
  static float decode(std::uint16_t bits) { return from_float16(bits); }
  static std::uint16_t encode(float value) { return to_float16(value); }
};
struct BFloat16 {
  static constexpr int kFractionBits = 7;
  static constexpr int kBias = 127;
  static float decode(std::uint16_t bits) { return from_bfloat16(bits); }
  static std::uint16_t encode(float value) { return to_bfloat16(value); }
};

constexpr std::uint16_t kSign = 0x8000;

template <typename Type>
struct HalfTest : testing::Test {
  static constexpr auto kInfinity =
      static_cast<std::uint16_t>((2 * Type::kBias + 1) << Type::kFractionBits);

  /// The value of positive bits as IEEE 754 defines it; for infinity the next power of two, which
  /// is where rounding sees it.
  static double value_of(std::uint16_t bits) {
    const int exponent = bits >> Type::kFractionBits;
    const int fraction = bits & ((1 << Type::kFractionBits) - 1);
    const int leading = exponent == 0 ? 0 : 1 << Type::kFractionBits;
    return std::ldexp(leading + fraction,
                      std::max(exponent, 1) - Type::kBias - Type::kFractionBits);
  }

  /// Nearest by search over all values, ties to the even one.
  static std::uint16_t nearest(float value) {
    const double size = std::fabs(static_cast<double>(value));
    std::uint16_t low = 0;
    std::uint16_t high = kInfinity;
    while (high - low > 1) {
      const auto middle = static_cast<std::uint16_t>((low + high) / 2);
      (value_of(middle) <= size ? low : high) = middle;
    }
    const double below = size - value_of(low);
    const double above = value_of(high) - size;
    const bool up = above < below || (above == below && (high & 1) == 0);
    return static_cast<std::uint16_t>((up ? high : low) | (std::signbit(value) ? kSign : 0));
  }
};

using Types = testing::Types<Float16, BFloat16>;
struct TypeName {
  template <typename Type>
  static std::string GetName(int) {  // NOLINT: the name that GoogleTest asks for
    return std::is_same_v<Type, Float16> ? "float16" : "bfloat16";
  }
};
TYPED_TEST_SUITE(HalfTest, Types, TypeName);

TYPED_TEST(HalfTest, EveryValueRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto magnitude = static_cast<std::uint16_t>(half & ~kSign);
    const float value = TypeParam::decode(half);
    EXPECT_EQ(std::signbit(value), half >= kSign) << bits;
    if (magnitude > this->kInfinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const std::uint16_t back = TypeParam::encode(value);
      ASSERT_GT(back & ~kSign, this->kInfinity) << bits;
      ASSERT_EQ(back & kSign, half & kSign) << bits;
      continue;
    }
    const double expected = magnitude == this->kInfinity ? std::numeric_limits<double>::infinity()
                                                         : this->value_of(magnitude);
    ASSERT_EQ(std::fabs(static_cast<double>(value)), expected) << bits;
    ASSERT_EQ(TypeParam::encode(value), half) << bits;
  }
}

// Between any two neighbours: the middle, and the floats beside it.
TYPED_TEST(HalfTest, RoundsToNearestEvenAtEveryBoundary) {
  for (std::uint16_t low = 0; low < this->kInfinity; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    // Exact: a neighbour's middle has one more bit, and bfloat16's smallest is a float subnormal.
    const auto middle = static_cast<float>((this->value_of(low) + this->value_of(high)) / 2);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, infinity)}) {
      ASSERT_EQ(TypeParam::encode(value), this->nearest(value)) << value;
      ASSERT_EQ(TypeParam::encode(-value), this->nearest(-value)) << value;
    }
  }
}

TYPED_TEST(HalfTest, RoundsToNearestEvenAnywhere) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(TypeParam::encode(value), this->nearest(value)) << value;
  }
}

TYPED_TEST(HalfTest, Specials) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TypeParam::encode(0.0f), 0);
  EXPECT_EQ(TypeParam::encode(-0.0f), kSign);
  EXPECT_EQ(TypeParam::encode(kInf), this->kInfinity);
  EXPECT_EQ(TypeParam::encode(-kInf), this->kInfinity | kSign);
  EXPECT_EQ(TypeParam::encode(std::numeric_limits<float>::max()), this->kInfinity);
  // Float subnormals; bfloat16 keeps the larger ones.
  EXPECT_EQ(TypeParam::encode(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(TypeParam::encode(-0x1.8p-128f), this->nearest(-0x1.8p-128f));
  // NaN, quiet and signalling, with payload bits that 16 bits cannot hold.
  for (const std::uint32_t bits :
       {0x7fc00000u, 0x7f800001u, 0x7fbfffffu, 0xff800001u, 0xffffffffu}) {
    const std::uint16_t half = TypeParam::encode(std::bit_cast<float>(bits));
    EXPECT_GT(half & ~kSign, this->kInfinity) << bits;
    EXPECT_EQ(half >> 15, bits >> 31) << bits;
  }
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(to_float16(1.0f), 0x3c00);
  EXPECT_EQ(to_float16(-2.0f), 0xc000);
  EXPECT_EQ(to_float16(65504.0f), 0x7bff);
  EXPECT_EQ(to_float16(65519.996f), 0x7bff);
  EXPECT_EQ(to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(to_float16(0x1p-24f), 0x0001);
  EXPECT_EQ(to_float16(0x1p-25f), 0x0000);
  EXPECT_EQ(to_float16(0x1.000002p-25f), 0x0001);
}

TEST(BFloat16, KnownValues) {
  EXPECT_EQ(to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(to_bfloat16(3.14159274f), 0x4049);
  EXPECT_EQ(to_bfloat16(1.00390625f), 0x3f80);  // a tie, to even
  EXPECT_EQ(to_bfloat16(1.01171875f), 0x3f82);  // a tie, to even
}

}  // namespace
}  // namespace rotary::internal
