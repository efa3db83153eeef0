// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Changes of recipe: rerotate() multiplies keys once by z_to / z_from.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/oracle.h"
#include "reference/rotation.h"
#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::rerotate_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Sizes kSizes{.batch = 2, .tokens = 6, .heads = 3, .head_dim = 40};
constexpr std::int64_t kPairs = 17;
constexpr std::int64_t kOffset = 3;

Frequencies make(const Scaling& scaling, std::int64_t context = 0, double theta = 1e4,
                 const AxisMap& axes = OneAxis{}) {
  return make_frequencies(
      {.rotary_dim = 2 * kPairs, .theta = theta, .scaling = scaling, .axes = axes}, context);
}

HeadLayout layout(Pairing pairing, Pairing output) {
  return {.head_dim = kSizes.head_dim,
          .rotary_offset = kOffset,
          .pairing = pairing,
          .output_pairing = output};
}

/// Two recipes between which cached keys change.
struct Crossing {
  std::string name;
  Frequencies from;
  Frequencies to;
};

std::vector<Crossing> crossings() {
  LongRope long_rope{.short_factor = std::vector<double>(kPairs, 1.05),
                     .long_factor = {},
                     .original_context = 64,
                     .factor = 4};
  for (std::int64_t i = 0; i < kPairs; ++i) {
    long_rope.long_factor.push_back(1.0 + 0.9 * static_cast<double>(i));
  }
  long_rope.short_mscale = 1.0;
  long_rope.long_mscale = 1.243;
  const DynamicNtk dynamic{.factor = 2, .original_context = 64};
  Frequencies sideways = make(Plain{});
  for (double& value : sideways.values) value = -0.37 * value;
  return {
      {"dynamic NTK, longer", make(dynamic, 64), make(dynamic, 4096)},
      {"dynamic NTK, shorter", make(dynamic, 8192), make(dynamic, 128)},
      {"LongRoPE, short to long", make(long_rope, 64), make(long_rope, 65)},
      {"LongRoPE, long to short", make(long_rope, 65), make(long_rope, 64)},
      {"plain to YaRN", make(Plain{}), make(Yarn{.factor = 4, .original_context = 64})},
      {"another base", make(Plain{}), make(Plain{}, 0, 5e5)},
      {"the other way round", make(Plain{}), sideways},
      {"xPos, another origin", make(Xpos{.origin = 0.0}), make(Xpos{.origin = 50.0})},
      {"xPos to plain", make(Xpos{.origin = 10.0}), make(Linear{.factor = 2})},
      {"plain to xPos", make(Linear{.factor = 2}), make(Xpos{.scale_base = 256.0})},
      {"M-RoPE", make(Plain{}, 0, 1e4, Mrope{{6, 6, 5}}),
       make(Yarn{.factor = 4, .original_context = 64}, 0, 1e6, Mrope{{6, 6, 5}})},
  };
}

/// z_to / z_from in long double, for positions whose angles it holds.
auto quotient(const Crossing& c, const std::vector<long double>& positions) {
  return [&c, &positions](std::int64_t row, std::int64_t pair) {
    const long double* at = &positions[static_cast<std::size_t>(row * c.from.axes)];
    return reference::multiplier(c.to, reference::Map::kRotate, pair, at) /
           reference::multiplier(c.from, reference::Map::kRotate, pair, at);
  };
}

/// As units_of(); for float64 the rounding of a second frequency, 0.8 sqrt(2), and a second growth,
/// 1, come on top, and in both types the quotient of two scales, half.
double units_of_quotient(DType dtype) {
  return units_of(dtype) + (dtype == DType::kFloat64 ? 2.7 : 0.5);
}

TEST(Rerotate, IsTheQuotient) {
  const std::vector<std::int64_t> first = {3, -200};
  std::vector<long double> one_axis;
  for (const std::int64_t start : first) {
    for (std::int64_t t = 0; t < kSizes.tokens; ++t) {
      one_axis.push_back(static_cast<long double>(start + t));
    }
  }
  for (const Crossing& c : crossings()) {
    std::vector<long double> positions;  // [rows, axes]
    for (const long double p : one_axis) {
      positions.insert(positions.end(), static_cast<std::size_t>(c.from.axes), p);
    }
    for (const Pairing read : {Pairing::kInterleaved, Pairing::kHalf}) {
      for (const Pairing write : {Pairing::kInterleaved, Pairing::kHalf}) {
        const Rope from(c.from, layout(Pairing::kHalf, read));
        const Rope to(c.to, layout(Pairing::kInterleaved, write));
        const WrittenSlice slice{kOffset, kPairs, write};
        for (const DType dtype : kTypes) {
          SCOPED_TRACE(c.name + ", " + std::string(name_of(dtype)));
          const PlacedTensor keys(Layout::kPackedQkv, dtype, kSizes, 1);
          const PlacedTensor out(Layout::kHeadsFirst, dtype, kSizes, 2);
          const reference::Elements before = keys.snapshot();
          const auto expected =
              reference::multiply(from.layout(), kPairs, read, write, keys.values(), kSizes.heads,
                                  quotient(c, positions));
          const Positions at = Positions::range(first).on_all_axes();
          rerotate(Operand(keys.view(), out.view()), from, to, at);
          ASSERT_TRUE(keys.memory() == before);
          ASSERT_TRUE(holds_rotation(out, slice, expected, units_of_quotient(dtype)));
          rerotate(keys.view(), from, to, at);
          ASSERT_EQ(keys.bits(), out.bits());
          ASSERT_TRUE(kept_the_rest(keys, slice, before, false));
        }
      }
    }
  }
}

// Keys of the one recipe become those of the other. Three operations of k units each, the first one
// carried through the second and lengthened by the quotient of the scales, below 2.
TEST(Rerotate, ChangesTheRecipeOfKeys) {
  const std::vector<double> ids = {0.5, 17.0, -3.25, 100.0, 0.0, 63.9};
  for (const Crossing& c : crossings()) {
    const Rope from(c.from, layout(Pairing::kInterleaved, Pairing::kHalf));
    const Rope to(c.to, layout(Pairing::kInterleaved, Pairing::kInterleaved));
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      const PlacedTensor keys(Layout::kContiguous, dtype, kSizes, 1);
      const PlacedTensor wanted(Layout::kContiguous, dtype, kSizes, 1);
      const Positions at = Positions::ids(ids).on_all_axes();
      from.rotate(keys.view(), at);
      rerotate(keys.view(), from, to, at);
      to.rotate(wanted.view(), at);
      EXPECT_TRUE(holds_rotation(keys, {kOffset, kPairs, Pairing::kInterleaved}, wanted.values(),
                                 (2.0 + 2.0 * std::sqrt(2.0)) * units_of_quotient(dtype)))
          << c.name;
    }
  }
}

// The phases cancel exactly: rerotating to the same recipe changes nothing.
TEST(Rerotate, ToItselfKeepsTheBits) {
  for (const Crossing& c : crossings()) {
    const Rope rope(c.to, layout(Pairing::kHalf, Pairing::kHalf));
    for (const DType dtype : kTypes) {
      const PlacedTensor keys(Layout::kContiguous, dtype, kSizes, 5);
      const auto before = keys.bits();
      rerotate(keys.view(), rope, rope, Positions::range(131069).on_all_axes());
      EXPECT_EQ(keys.bits(), before) << c.name << ' ' << name_of(dtype);
    }
  }
}

/// cos and sin that a crossing applies: pairs (1, 0) at one position.
template <typename T>
std::vector<T> applied(const Rope& from, const Rope& to, std::int64_t position) {
  const std::int64_t width = from.frequencies().rotary_dim();
  std::vector<T> x(static_cast<std::size_t>(width), T(0));
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = T(1);
  const DType dtype = sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32;
  rerotate(TensorView::contiguous(x.data(), dtype, {1, 1, width}), from, to,
           Positions::at(position));
  return x;
}

// At large positions the quotient is that of MPFR, to 1e-7 plus the rounding of two frequencies.
TEST(Rerotate, ExactAtLargePositions) {
  const DynamicNtk dynamic{.factor = 8, .original_context = 4096};
  const HeadLayout whole{.head_dim = 2 * kPairs, .pairing = Pairing::kInterleaved};
  const Rope from(make(dynamic, 4096), whole);
  const Rope to(make(dynamic, 1 << 20), whole);
  for (const std::int64_t p :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{39001}, std::int64_t{131071},
        std::int64_t{1048575}, std::int64_t{(1 << 24) - 1}, (std::int64_t{1} << 31) + 1,
        -(std::int64_t{1} << 31)}) {
    const auto x = applied<float>(from, to, p);
    const auto y = applied<double>(from, to, p);
    const double rounding = 2.0 * 1.8e-19 * std::fabs(static_cast<double>(p));
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const double f[] = {to.frequencies()(i), -from.frequencies()(i)};
      const std::int64_t at[] = {p, p};
      const auto z =
          reference::cos_sin_at(std::span<const double>(f), std::span<const std::int64_t>(at));
      const auto first = static_cast<std::size_t>(2 * i);
      EXPECT_NEAR(static_cast<double>(x[first]), static_cast<double>(z.cos), 1e-7 + rounding) << p;
      EXPECT_NEAR(static_cast<double>(x[first + 1]), static_cast<double>(z.sin), 1e-7 + rounding)
          << p;
      EXPECT_NEAR(y[first], static_cast<double>(z.cos), 2e-16 + rounding) << p;
      EXPECT_NEAR(y[first + 1], static_cast<double>(z.sin), 2e-16 + rounding) << p;
    }
  }
}

// With the float32 angles of transformers it undoes exactly the angle that was applied. cos and
// sin of either angle are rounded to float32, as vectors 0.5 sqrt(2) units, and their product is 1
// more; the exact one errs by 0.85.
TEST(Rerotate, ReferenceAngles) {
  constexpr auto kExact = Precision::kExact;
  constexpr auto kReference = Precision::kReference;
  const HeadLayout whole{.head_dim = 2 * kPairs, .pairing = Pairing::kInterleaved};
  const Frequencies f = make(Plain{});
  const Frequencies g = make(Plain{}, 0, 5e5);
  for (const auto& [from, to] : {std::pair{kReference, kReference}, std::pair{kReference, kExact},
                                 std::pair{kExact, kReference}}) {
    for (const std::int64_t p : {std::int64_t{7}, std::int64_t{39001}, std::int64_t{1048575}}) {
      const auto x =
          applied<float>(Rope(f, whole, {.precision = from}), Rope(g, whole, {.precision = to}), p);
      for (std::int64_t i = 0; i < kPairs; ++i) {
        const auto z_of = [i, p](const Frequencies& frequencies, Precision precision) {
          const float angle = static_cast<float>(frequencies(i)) * static_cast<float>(p);
          const auto z = precision == kExact
                             ? reference::cos_sin_at(frequencies(i), p)
                             : reference::cos_sin_at(1.0, static_cast<double>(angle));
          return std::complex<long double>(z.cos, z.sin);
        };
        const auto z = z_of(g, to) / z_of(f, from);
        const auto at = static_cast<std::size_t>(2 * i);
        const double error =
            std::hypot(static_cast<double>(x[at]) - static_cast<double>(z.real()),
                       static_cast<double>(x[at + 1]) - static_cast<double>(z.imag()));
        EXPECT_LT(error, (0.85 + 0.71 + 1.0) * 0x1p-23) << i << " at " << p;
      }
    }
  }
}

// ---- Rejected calls ----------------------------------------------------------------------------

TEST_F(RopeRejects, InvalidRerotation) {
  const auto rejects = [this](const Rope& from, const Rope& to, const std::string& rule,
                              const Positions& at = Positions::range()) {
    expect_rejected([&] { rerotate(x(), from, to, at); }, "rerotate", rule);
  };
  constexpr auto kHalf = Pairing::kHalf;
  const Rope good(half_radians(), {.head_dim = 4, .pairing = kHalf});
  rejects(good, Rope(half_radians(), {.head_dim = 5, .pairing = kHalf}), "head_dim");
  rejects(Rope(half_radians(), {.head_dim = 6, .pairing = kHalf}), good, "head_dim");
  rejects(good, Rope(half_radians(1), {.head_dim = 4, .pairing = kHalf}), "rotary");
  rejects(Rope(half_radians(1), {.head_dim = 4, .pairing = kHalf}),
          Rope(half_radians(1), {.head_dim = 4, .rotary_offset = 1, .pairing = kHalf}), "rotary");
  rejects(good, Rope(half_radians(2, 2), {.head_dim = 4, .pairing = kHalf}), "axes");
  const std::vector<std::int64_t> two = {1, 2};
  rejects(good, good, "3 tokens", Positions::ids(two));
  rejects(good, good, "1 batch rows", Positions::range(two));
  const std::vector<double> not_finite = {0.0, kInf, 0.0};
  rejects(good, good, "positions must be finite", Positions::ids(not_finite));
  TensorView wrong = x();
  wrong.shape[2] = 3;
  expect_rejected([&] { rerotate(wrong, good, good, Positions::range()); }, "rerotate",
                  "the last size must be head_dim 4");
}

}  // namespace
}  // namespace rotary::rerotate_test
