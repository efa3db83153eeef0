// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shifts of rotated keys: shift() multiplies by e^(delta (growth + i f)), without scale, so keys of
// position p become those of p + delta.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/oracle.h"
#include "reference/rotation.h"
#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::shift_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Sizes kSizes{.batch = 2, .tokens = 6, .heads = 3, .head_dim = 40};
constexpr std::int64_t kRotaryDim = 34;
constexpr std::int64_t kOffset = 3;

Recipe recipe(const Scaling& scaling, const AxisMap& axes = OneAxis{}) {
  return {.rotary_dim = kRotaryDim, .theta = 1e4, .scaling = scaling, .axes = axes};
}
const Yarn kYarn{.factor = 4, .original_context = 64};

HeadLayout layout(Pairing pairing, Pairing output) {
  return {.head_dim = kSizes.head_dim,
          .rotary_offset = kOffset,
          .pairing = pairing,
          .output_pairing = output};
}

/// Distances in one form, and their values: [batch * tokens, axes].
struct Delta {
  std::string name;
  Positions positions;
  std::function<double(std::int64_t b, std::int64_t t, std::int64_t a)> at;
};

// Distances that do not grow with the memory of this test.
const std::vector<std::int64_t> kRows = {17, -240};
const std::vector<std::int64_t> kBoundaries = {0, 2, 2, 5, 6};
const std::vector<std::int64_t> kOfSequence = {-100, 1 << 20, 3, 77};
const std::vector<std::int64_t> kIds = {5, -5, 0, 131, 1, -77};
const std::vector<float> kReal32 = {0.5f, -0.37f, 0.0f, 100.125f, 1e-3f, -2.0f};
const std::vector<double> kReal64 = {0.1, -0.37, 0.0, 100.3, 1e-9, -2.0};

std::vector<Delta> one_axis_deltas() {
  const auto of_token = [](const auto& values) {
    return [&values](std::int64_t, std::int64_t t, std::int64_t) {
      return static_cast<double>(values[static_cast<std::size_t>(t)]);
    };
  };
  return {{"at", Positions::at(-9), [](auto, auto, auto) { return -9.0; }},
          {"at 0", Positions::at(0), [](auto, auto, auto) { return 0.0; }},
          {"at rows", Positions::at(kRows),
           [](std::int64_t b, auto, auto) {
             return static_cast<double>(kRows[static_cast<std::size_t>(b)]);
           }},
          {"packed at", Positions::packed_at(kBoundaries, kOfSequence),
           [](auto, std::int64_t t, auto) { return t < 2   ? -100.0
                                                   : t < 5 ? 3.0
                                                           : 77.0; }},
          {"range", Positions::range(-2),
           [](auto, std::int64_t t, auto) { return static_cast<double>(t - 2); }},
          {"ids", Positions::ids(kIds), of_token(kIds)},
          {"float32", Positions::ids(kReal32), of_token(kReal32)},
          {"float64", Positions::ids(kReal64), of_token(kReal64)}};
}

/// Distances for each axis: ids [axes, tokens], and the others on all axes.
std::vector<Delta> deltas(std::int64_t axes, std::vector<double>& memory) {
  std::vector<Delta> result = one_axis_deltas();
  if (axes == 1) return result;
  for (Delta& delta : result) delta.positions = delta.positions.on_all_axes();
  for (std::int64_t i = 0; i < axes * kSizes.tokens; ++i) {
    memory.push_back(0.75 * static_cast<double>((i * 29) % 61 - 30));
  }
  result.push_back({"ids of each axis",
                    Positions::ids(ConstTensorView::contiguous(memory.data(), DType::kFloat64,
                                                               {axes, kSizes.tokens})),
                    [&memory](std::int64_t, std::int64_t t, std::int64_t a) {
                      return memory[static_cast<std::size_t>(a * kSizes.tokens + t)];
                    }});
  return result;
}

std::vector<long double> values_of(const Delta& delta, std::int64_t axes) {
  std::vector<long double> values;
  for (std::int64_t b = 0; b < kSizes.batch; ++b) {
    for (std::int64_t t = 0; t < kSizes.tokens; ++t) {
      for (std::int64_t a = 0; a < axes; ++a) {
        values.push_back(static_cast<long double>(delta.at(b, t, a)));
      }
    }
  }
  return values;
}

/// The frequencies of a shift.
Frequencies of_distance(Frequencies f) {
  f.scale = 1.0;
  f.growth_origin = 0.0;
  return f;
}

// Each dtype, pairing, kind of distance and recipe, against the reference, in place and out of
// place.
TEST(Shift, IsTheFactorOfTheDistance) {
  for (const auto& [scaling, axes] : {std::pair<Scaling, AxisMap>{Plain{}, OneAxis{}},
                                      {kYarn, OneAxis{}},
                                      {Xpos{.origin = 30.0}, OneAxis{}},
                                      {kYarn, Mrope{{6, 6, 5}}},
                                      {Xpos{}, Axial{}}}) {
    const Frequencies f = make_frequencies(recipe(scaling, axes));
    std::vector<double> memory;
    for (const Delta& delta : deltas(f.axes, memory)) {
      for (const Pairing output : {Pairing::kInterleaved, Pairing::kHalf}) {
        const HeadLayout written = layout(output, output);
        const WrittenSlice slice{kOffset, f.pairs, output};
        for (const DType dtype : kTypes) {
          SCOPED_TRACE(std::string(name_of(scaling)) + ", " + delta.name + ", " +
                       std::string(name_of(dtype)));
          const Rope rope(f, layout(Pairing::kInterleaved, output));
          PlacedTensor keys(Layout::kPackedQkv, dtype, kSizes, 1);
          const PlacedTensor out(Layout::kHeadsFirst, dtype, kSizes, 2);
          const reference::Elements before = keys.snapshot();
          const auto expected =
              reference::rotate(of_distance(f), written, reference::Map::kRotate, keys.values(),
                                kSizes.heads, values_of(delta, f.axes));
          rope.shift(Operand(keys.view(), out.view()), delta.positions);
          ASSERT_TRUE(keys.memory() == before);
          ASSERT_TRUE(holds_rotation(out, slice, expected, units_of(dtype)));
          rope.shift(keys.view(), delta.positions);
          ASSERT_EQ(keys.bits(), out.bits());
          ASSERT_TRUE(kept_the_rest(keys, slice, before, false));
          // Precision::kReference affects rotations only, not shifts.
          const Rope same_distance(f, rope.layout(), {.precision = Precision::kReference});
          keys.restore(before);
          same_distance.shift(keys.view(), delta.positions);
          ASSERT_EQ(keys.bits(), out.bits());
        }
      }
    }
  }
}

// Keys rotated at p and shifted by d are those of p + d. The rotation errs by k units, as a vector
// by k sqrt(2), to which the shift adds its own k; the other side errs by k: (2 + sqrt 2) k in all.
// The 16-bit types round three times: at most 3/2 units, sqrt(2) longer for the one that is
// shifted.
TEST(Shift, MovesKeys) {
  for (const auto& [scaling, axes] : {std::pair<Scaling, AxisMap>{Plain{}, OneAxis{}},
                                      {kYarn, OneAxis{}},
                                      {Xpos{}, OneAxis{}},
                                      {kYarn, Mrope{{6, 6, 5}}}}) {
    const Frequencies f = make_frequencies(recipe(scaling, axes));
    const Rope rope(f, layout(Pairing::kInterleaved, Pairing::kHalf));
    for (const DType dtype : kTypes) {
      for (const std::int64_t by : {1, -1, 300, -700}) {
        const PlacedTensor moved(Layout::kContiguous, dtype, kSizes, 1);
        const PlacedTensor direct(Layout::kContiguous, dtype, kSizes, 1);
        rope.rotate(moved.view(), Positions::range(100).on_all_axes());
        rope.shift(moved.view(), Positions::at(by).on_all_axes());
        rope.rotate(direct.view(), Positions::range(100 + by).on_all_axes());
        const auto got = moved.values();
        const auto wanted = direct.values();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto dim = static_cast<std::int64_t>(i) % kSizes.head_dim;
          const WrittenSlice slice{kOffset, f.pairs, Pairing::kHalf};
          if (!slice.holds(dim)) continue;
          const auto other =
              static_cast<std::size_t>(static_cast<std::int64_t>(i) - dim + slice.partner(dim));
          const auto length = static_cast<double>(std::hypot(wanted[i], wanted[other]));
          double allowed = (2.0 + std::sqrt(2.0)) * units_of(dtype) * length *
                           (dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23);
          if (size_of(dtype) == 2) {
            allowed += (1.0 + 0.5 * std::sqrt(2.0)) * ulp_at(dtype, length);
          }
          ASSERT_LE(static_cast<double>(std::fabs(got[i] - wanted[i])), allowed)
              << name_of(scaling) << ' ' << name_of(dtype) << ' ' << by << ' ' << i;
        }
      }
    }
  }
}

// Forwards and backwards a thousand times. Each step errs by at most k units of the length; a scale
// at each step would grow to 1.1386^2000.
TEST(Shift, DoesNotDrift) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Frequencies f = make_frequencies(recipe(kYarn));
    ASSERT_GT(f.scale, 1.1);
    const Rope rope(f, layout(Pairing::kHalf, Pairing::kHalf));
    const PlacedTensor keys(Layout::kContiguous, dtype, kSizes, 3);
    const auto before = keys.values();
    for (int i = 0; i < 1000; ++i) {
      rope.shift(keys.view(), Positions::at(4096 - 7 * i));
      rope.shift(keys.view(), Positions::at(7 * i - 4096));
    }
    EXPECT_TRUE(
        holds_rotation(keys, {kOffset, f.pairs, Pairing::kHalf}, before, 2000.0 * units_of(dtype)));
    // A thousand shifts by one equal a shift by a thousand.
    const PlacedTensor step(Layout::kContiguous, dtype, kSizes, 4);
    const PlacedTensor walk(Layout::kContiguous, dtype, kSizes, 4);
    rope.shift(step.view(), Positions::at(1000));
    for (int i = 0; i < 1000; ++i) rope.shift(walk.view(), Positions::at(1));
    EXPECT_TRUE(holds_rotation(walk, {kOffset, f.pairs, Pairing::kHalf}, step.values(),
                               1001.0 * units_of(dtype)));
  }
}

// A shift by zero changes nothing, for any scale and growth origin.
TEST(Shift, ByZeroKeepsTheBits) {
  for (const Scaling& scaling : {Scaling(kYarn), Scaling(Xpos{.origin = 100.0})}) {
    const Rope rope(make_frequencies(recipe(scaling)), layout(Pairing::kHalf, Pairing::kHalf));
    for (const DType dtype : kTypes) {
      const PlacedTensor keys(Layout::kContiguous, dtype, kSizes, 5);
      const auto before = keys.bits();
      rope.shift(keys.view(), Positions::at(0));
      EXPECT_EQ(keys.bits(), before) << name_of(dtype);
    }
  }
}

// Across a whole context and beyond, cos and sin are those of MPFR.
TEST(Shift, ExactAtLargePositions) {
  const Frequencies f = make_frequencies({.rotary_dim = 32, .theta = 5e5, .scaling = kYarn});
  for (const Precision precision : {Precision::kExact, Precision::kReference}) {
    const Rope rope(f, {.head_dim = 32, .pairing = Pairing::kInterleaved},
                    {.precision = precision});
    for (const std::int64_t by :
         {std::int64_t{39001}, std::int64_t{-131071}, std::int64_t{1048575},
          std::int64_t{(1 << 24) - 1}, (std::int64_t{1} << 31) + 1, -(std::int64_t{1} << 31) - 1}) {
      std::vector<float> x(32, 0.0f);
      for (std::size_t i = 0; i < x.size(); i += 2) x[i] = 1.0f;
      rope.shift(TensorView::contiguous(x.data(), DType::kFloat32, {1, 1, 32}), Positions::at(by));
      for (std::int64_t i = 0; i < f.pairs; ++i) {
        const reference::CosSin z = reference::cos_sin_at(f(i), by);
        const auto at = static_cast<std::size_t>(2 * i);
        EXPECT_NEAR(static_cast<double>(x[at]), static_cast<double>(z.cos), 1e-7) << by;
        EXPECT_NEAR(static_cast<double>(x[at + 1]), static_cast<double>(z.sin), 1e-7) << by;
      }
    }
  }
}

// ---- Rejected calls ----------------------------------------------------------------------------

TEST_F(RopeRejects, InvalidShifts) {
  const auto rejects = [this](const TensorView& keys, const Positions& by, const std::string& rule,
                              const std::string& value = "") {
    expect_rejected([&] { rope().shift(keys, by); }, "shift", rule, value);
  };
  const std::vector<std::int64_t> two = {1, 2};
  rejects(x(), Positions::at(two), "1 batch rows", "got 2");
  rejects(x(), Positions::ids(two), "3 tokens", "got 2");
  const std::vector<std::int64_t> boundaries = {0, 1, 2};
  rejects(x(), Positions::packed_at(boundaries, two), "3 tokens", "got 2");
  const std::vector<double> not_finite = {0.0, kNan, 0.0};
  rejects(x(), Positions::ids(not_finite), "positions must be finite", "got nan");
  TensorView wrong = x();
  wrong.shape[2] = 5;
  rejects(wrong, Positions::at(1), "the last size must be head_dim 4");
  wrong = x();
  wrong.dtype = DType::kInt32;
  rejects(wrong, Positions::at(1), "floating-point", "int32");
  wrong = x();
  wrong.strides[0] = 0;
  rejects(wrong, Positions::at(1), "must not share memory");
  const Rope two_axes(half_radians(2, 2), {.head_dim = 4, .pairing = Pairing::kHalf});
  expect_rejected([&] { two_axes.shift(x(), Positions::at(1)); }, "shift",
                  "positions must have 2 axes", "got 1");
}

}  // namespace
}  // namespace rotary::shift_test
