// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The accuracy of cos and sin that rope.h promises, against MPFR: pairs (1, 0) become (cos, sin)
// without further rounding.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "reference/oracle.h"
#include "rotary/rope.h"

namespace rotary::exact_test {
namespace {

/// Half a unit of 2^-64 turns per position: 2 pi 2^-65 = 1.71e-19 radians.
constexpr double kPerPosition = 1.8e-19;

template <typename T>
constexpr DType kDType = std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;
template <typename T>
constexpr double kBound = std::is_same_v<T, double> ? 2e-16 : 1e-7;

/// cos and sin of every pair at every token, as the rope applies them: [tokens, pairs].
template <typename T>
struct Table {
  std::vector<T> values;
  std::int64_t pairs;
  /// The larger of the errors of cos and sin.
  double error(std::int64_t token, std::int64_t pair, const reference::CosSin& z) const {
    return static_cast<double>(
        std::max(std::fabs(static_cast<long double>(cos(token, pair)) - z.cos),
                 std::fabs(static_cast<long double>(sin(token, pair)) - z.sin)));
  }
  T cos(std::int64_t token, std::int64_t pair) const { return at(token, pair, 0); }
  T sin(std::int64_t token, std::int64_t pair) const { return at(token, pair, 1); }
  T at(std::int64_t token, std::int64_t pair, std::int64_t member) const {
    return values[static_cast<std::size_t>((token * pairs + pair) * 2 + member)];
  }
};
template <typename T>
Table<T> table_of(const Frequencies& f, const Positions& positions, std::int64_t tokens,
                  Precision precision = Precision::kExact) {
  const Rope rope(f, {.head_dim = f.rotary_dim(), .pairing = Pairing::kInterleaved},
                  {.precision = precision});
  std::vector<T> x(static_cast<std::size_t>(tokens * f.rotary_dim()));
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = T(1);
  rope.rotate(TensorView::contiguous(x.data(), kDType<T>, {tokens, 1, f.rotary_dim()}), positions);
  return {std::move(x), f.pairs};
}

/// Frequencies of models, low and high, and some irregular ones.
std::vector<Frequencies> ladders() {
  std::vector<Frequencies> result;
  for (const double theta : {1e4, 5e5, 1e7}) {
    result.push_back(make_frequencies({.rotary_dim = 64, .theta = theta}));
  }
  result.push_back(make_frequencies(
      {.rotary_dim = 128, .theta = 5e5, .scaling = Llama3{.factor = 8, .original_context = 8192}}));
  result.push_back({.pairs = 8,
                    .values = {0.0, -1.0, std::numbers::pi, 0.7390851332151607, 1e-12, 1e3,
                               -2.0 * std::numbers::pi, 0x1p31}});
  return result;
}

std::vector<std::int64_t> positions_up_to(std::int64_t most, int random_count) {
  std::vector<std::int64_t> list = {0,
                                    1,
                                    2,
                                    39001,
                                    131071,
                                    1048575,
                                    (1 << 24) - 1,
                                    (std::int64_t{1} << 31) - 1,
                                    (std::int64_t{1} << 31) + 1};
  std::erase_if(list, [most](std::int64_t p) { return p > most; });
  list.push_back(most);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::int64_t> any(0, most);
  for (int i = 0; i < random_count; ++i) list.push_back(any(random));
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) list.push_back(-list[i]);
  return list;
}

/// Largest error of cos and sin over the ladders, minus the allowance per position.
template <typename T>
double largest_error(const std::vector<std::int64_t>& positions, double per_position) {
  double largest = 0.0;
  for (const Frequencies& f : ladders()) {
    const auto tokens = static_cast<std::int64_t>(positions.size());
    const Table<T> table = table_of<T>(f, Positions::ids(positions), tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t p = positions[static_cast<std::size_t>(t)];
      const double allowed = std::fabs(static_cast<double>(p)) * per_position;
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        const double error = table.error(t, i, reference::cos_sin_at(f(i), p));
        largest = std::max(largest, error - allowed);
      }
    }
  }
  return largest;
}

TEST(Exact, Float32UpTo31Bits) {
  EXPECT_LT(largest_error<float>(positions_up_to((std::int64_t{1} << 31) + 1, 20), 0.0), 1e-7);
}

TEST(Exact, Float32UpTo40Bits) {
  EXPECT_LT(largest_error<float>(positions_up_to(std::int64_t{1} << 40, 20), 0.0), 3e-7);
}

TEST(Exact, Float32Beyond) {
  const auto positions = positions_up_to(std::int64_t{1} << 62, 20);
  EXPECT_LT(largest_error<float>(positions, kPerPosition), kBound<float>);
}

// The rate is tight: with a quarter less it would not hold.
TEST(Exact, ErrorPerPositionIsTheRoundingOfTheFrequency) {
  const auto positions = positions_up_to(std::int64_t{1} << 48, 40);
  EXPECT_LT(largest_error<double>(positions, kPerPosition), kBound<double>);
  EXPECT_GT(largest_error<double>(positions, 0.75 * kPerPosition), 1e-6);
}

TEST(Exact, Float64) {
  for (const int bits : {10, 24, 31, 40, 62}) {
    const auto positions = positions_up_to(std::int64_t{1} << bits, 10);
    EXPECT_LT(largest_error<double>(positions, kPerPosition), kBound<double>) << bits;
  }
}

// A range has the same bits as the equal ids.
TEST(Exact, RangesAtLargePositions) {
  const Frequencies f = make_frequencies({.rotary_dim = 128, .theta = 1e6});
  for (const std::int64_t first :
       {(std::int64_t{1} << 31) - 2, -(std::int64_t{1} << 31) - 2, std::int64_t{-2}}) {
    const Table<float> table = table_of<float>(f, Positions::range(first), 4);
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        EXPECT_LT(table.error(t, i, reference::cos_sin_at(f(i), first + t)), 1e-7);
      }
    }
  }
}

/// Real positions: fractions, tiny, negative, and up to the resolution of their type.
template <typename Number>
std::vector<Number> real_positions() {
  std::vector<Number> list;
  for (const double p : {0.0, 0.5, 1.0 / 3.0, 1e-3, 1e-12, 17.25, 4095.6, 131071.3, 1e9, 1e15}) {
    list.push_back(static_cast<Number>(p));
  }
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> any(-1.0, 1.0);
  for (const double size : {1.0, 100.0, 1e5, 1e9}) {
    for (int i = 0; i < 6; ++i) list.push_back(static_cast<Number>(size * any(random)));
  }
  const std::size_t count = list.size();
  for (std::size_t i = 0; i < count; ++i) list.push_back(-list[i]);
  return list;
}

template <typename T, typename Number>
void expect_exact_at_real_positions() {
  std::vector<Frequencies> all = ladders();
  // DINOv3: coordinates in [-1, 1] and a gain of 2 pi.
  all.push_back(make_frequencies({.rotary_dim = 32, .theta = 100, .gain = 2.0 * std::numbers::pi}));
  const std::vector<Number> positions = real_positions<Number>();
  const auto tokens = static_cast<std::int64_t>(positions.size());
  for (const Frequencies& f : all) {
    const Table<T> table =
        table_of<T>(f, Positions::ids(std::span<const Number>(positions)), tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto p = static_cast<double>(positions[static_cast<std::size_t>(t)]);
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        // Fractions of a position below 2^-64 are dropped: times the frequency.
        const double bound = kBound<T> + std::fabs(p) * kPerPosition + std::fabs(f(i)) * 0x1p-64;
        EXPECT_LT(table.error(t, i, reference::cos_sin_at(f(i), p)), bound) << f(i) << " * " << p;
      }
    }
  }
}

TEST(Exact, RealPositions) {
  expect_exact_at_real_positions<float, float>();
  expect_exact_at_real_positions<float, double>();
  expect_exact_at_real_positions<double, float>();
  expect_exact_at_real_positions<double, double>();
}

// Axes add their phases before the wrap; each adds its own rounding of the frequency.
TEST(Exact, SeveralAxes) {
  std::mt19937_64 random(6);
  for (const std::int64_t axes : {2, 3, 4}) {
    std::uniform_real_distribution<double> frequency(-2.0, 2.0);
    Frequencies f{.pairs = 12, .axes = axes};
    for (std::int64_t i = 0; i < f.pairs * axes; ++i) f.values.push_back(frequency(random));
    constexpr std::int64_t kTokens = 16;
    std::vector<std::int64_t> ids(static_cast<std::size_t>(axes * kTokens));  // [axes, tokens]
    for (auto& id : ids) id = static_cast<std::int64_t>(random() >> 32) - (std::int64_t{1} << 31);
    const auto view = ConstTensorView::contiguous(ids.data(), DType::kInt64, {axes, kTokens});
    const Table<double> table = table_of<double>(f, Positions::ids(view), kTokens);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::vector<std::int64_t> x;
      double size = 0.0;
      for (std::int64_t a = 0; a < axes; ++a) {
        x.push_back(ids[static_cast<std::size_t>(a * kTokens + t)]);
        size += std::fabs(static_cast<double>(x.back()));
      }
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        const std::span<const double> row(&f.values[static_cast<std::size_t>(i * axes)], x.size());
        const double error =
            table.error(t, i, reference::cos_sin_at(row, std::span<const std::int64_t>(x)));
        EXPECT_LT(error, kBound<double> + size * kPerPosition);
      }
    }
  }
}

// float32 frequency times float32 position, cos and sin of that float rounded once.
template <typename T>
void expect_reference_angles() {
  for (const Frequencies& f : ladders()) {
    const auto positions = positions_up_to(std::int64_t{1} << 40, 10);
    const auto tokens = static_cast<std::int64_t>(positions.size());
    const Table<T> table = table_of<T>(f, Positions::ids(positions), tokens, Precision::kReference);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto p = static_cast<float>(positions[static_cast<std::size_t>(t)]);
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        const float angle = static_cast<float>(f(i)) * p;
        const reference::CosSin z = reference::cos_sin_at(1.0, static_cast<double>(angle));
        ASSERT_EQ(table.cos(t, i), static_cast<T>(static_cast<float>(z.cos)));
        ASSERT_EQ(table.sin(t, i), static_cast<T>(static_cast<float>(z.sin)));
      }
    }
  }
}

TEST(Reference, IsTheFloat32Angle) {
  expect_reference_angles<float>();
  expect_reference_angles<double>();
}

// Real positions are rounded to float32, and each axis makes a float32 product.
TEST(Reference, AxesAddInFloat32) {
  const Frequencies f{.pairs = 1, .axes = 2, .values = {0.1, 0.7}};
  constexpr std::int64_t kTokens = 32;
  std::vector<double> ids(2 * kTokens);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 1000.1 + 0.37 * static_cast<double>(i * i);
  const auto view = ConstTensorView::contiguous(ids.data(), DType::kFloat64, {2, kTokens});
  const Table<float> table =
      table_of<float>(f, Positions::ids(view), kTokens, Precision::kReference);
  int fused = 0;  // tokens at which a fused sum would be seen
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const auto x = static_cast<float>(ids[static_cast<std::size_t>(t)]);
    const auto y = static_cast<float>(ids[static_cast<std::size_t>(kTokens + t)]);
    const float angle = 0.1f * x + 0.7f * y;
    EXPECT_EQ(table.cos(t, 0), static_cast<float>(std::cos(static_cast<double>(angle))));
    EXPECT_EQ(table.sin(t, 0), static_cast<float>(std::sin(static_cast<double>(angle))));
    if (std::fma(0.7f, y, 0.1f * x) != angle) ++fused;
  }
  EXPECT_GT(fused, 0);
}

// Why kExact is the default: at 131,072 positions float32 angles are wrong in the third digit.
TEST(Reference, LosesDigitsWhereExactDoesNot) {
  const Frequencies f = make_frequencies({.rotary_dim = 128, .theta = 1e4});
  const auto worst = [&f](Precision precision) {
    const Table<float> table = table_of<float>(f, Positions::range(131072 - 128), 128, precision);
    double largest = 0.0;
    for (std::int64_t t = 0; t < 128; ++t) {
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        const auto z = reference::cos_sin_at(f(i), std::int64_t{131072 - 128} + t);
        largest = std::max(largest, table.error(t, i, z));
      }
    }
    return largest;
  };
  EXPECT_GT(worst(Precision::kReference), 4e-3);
  EXPECT_LT(worst(Precision::kExact), 1e-7);
}

}  // namespace
}  // namespace rotary::exact_test
