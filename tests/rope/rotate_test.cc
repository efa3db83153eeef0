// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One table: dtype x layout x pairing x output pairing x direction x target x slice x kind of
// positions x axes, against the reference, with nothing touched outside the slice and the view.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "reference/rotation.h"
#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

using reference::Map;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

/// Tolerance in units of the type's epsilon, relative to the length of the rotated pair.
///
/// float32: cos and sin are within 7.0e-8 = 0.6 epsilon, as a vector 0.6 sqrt(2) = 0.85; scale, z
/// times scale, the two products and their sum round by half an epsilon each, and by Cauchy their
/// weights |x c| + |y s| stay below the length: 0.85 + 4/2 < 3.
/// float64: 0.7 epsilon for cos and sin, up to 0.8 for 1000 positions times 1.8e-19, 1 for growth
/// and its exponent: 1.5 sqrt(2) + 1 + 4/2 < 5.2.
/// float16, bfloat16: half a unit for the one rounding, and 3 epsilons of float32, below 0.001.
double units_of(DType dtype) {
  if (dtype == DType::kFloat32) return 3.0;
  return dtype == DType::kFloat64 ? 5.2 : 0.501;
}
double epsilon_of(DType dtype) {
  if (dtype == DType::kFloat16) return 0x1p-10;
  if (dtype == DType::kBFloat16) return 0x1p-7;
  return dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-52;
}

enum class Target : std::uint8_t { kInPlace, kOutOfPlace };
enum class Slice : std::uint8_t { kFull, kLeading, kOffset, kTrailing };
enum class Kind : std::uint8_t {
  kRange,
  kRowRange,
  kInt32,
  kInt64,
  kFloat32,
  kFloat64,
  kPacked,
  kBatchIds
};

constexpr std::int64_t kPairs = 3;

struct Case {
  DType dtype;
  Layout layout;
  Pairing pairing;
  Pairing output;
  Map map;
  Target target;
  Slice slice;
  Kind kind;
  std::int64_t axes;
  Sizes sizes;

  std::string name() const {
    static constexpr std::array<const char*, 3> kMaps = {"rotate", "unrotate", "adjoint"};
    static constexpr std::array<const char*, 4> kSlices = {"full", "leading", "offset", "trailing"};
    static constexpr std::array<const char*, 8> kKinds = {
        "range", "row_range", "int32", "int64", "float32", "float64", "packed", "batch_ids"};
    std::ostringstream text;
    text << name_of(dtype) << ' ' << name_of(layout) << ' ' << name_of(pairing) << "->"
         << name_of(output) << ' ' << kMaps[static_cast<std::size_t>(map)]
         << (target == Target::kInPlace ? " in place " : " out of place ")
         << kSlices[static_cast<std::size_t>(slice)] << ' '
         << kKinds[static_cast<std::size_t>(kind)] << ' ' << axes << " axes " << sizes.batch << 'x'
         << sizes.tokens << 'x' << sizes.heads << 'x' << sizes.head_dim;
    return text.str();
  }
};

HeadLayout head_layout(const Case& c) {
  std::int64_t offset = 0;
  if (c.slice == Slice::kOffset) offset = 3;
  if (c.slice == Slice::kTrailing) offset = c.sizes.head_dim - 2 * kPairs;
  return {.head_dim = c.sizes.head_dim,
          .rotary_offset = offset,
          .pairing = c.pairing,
          .output_pairing = c.output};
}

/// A still pair, a backward one, and several axes in each of the others. Scaled always; growing
/// where there are two axes.
Frequencies frequencies(std::int64_t axes) {
  Frequencies f{.pairs = kPairs, .axes = axes, .scale = 1.1};
  for (std::int64_t i = 0; i < kPairs; ++i) {
    for (std::int64_t a = 0; a < axes; ++a) {
      const double value = 0.9 - 0.21 * static_cast<double>(a);
      f.values.push_back(i == 0 ? value : i == 1 ? 0.0 : -0.01 * value);
      if (axes == 2) f.growth.push_back(1e-4 * static_cast<double>(i - a));
    }
  }
  if (axes == 2) f.growth_origin = 12.5;
  return f;
}

/// Positions of one kind, with their memory, and what they mean: [batch * tokens, axes].
class TestPositions {
 public:
  explicit TestPositions(const Case& c) : case_(c) {
    const auto [batch, tokens, heads, head_dim] = c.sizes;
    for (std::int64_t b = 0; b < batch; ++b) first_.push_back(100 * b - 50);
    boundaries_ = {0, tokens / 3, tokens / 3, tokens};
    starts_ = {5, 77, -1000};
    const std::int64_t rows = c.kind == Kind::kBatchIds ? batch : 1;
    // Memory is [tokens, rows, axes], so that views of it are strided.
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t b = 0; b < rows; ++b) {
        for (std::int64_t a = 0; a < c.axes; ++a) {
          const std::int64_t id = (37 * t + 11 * a + 23 * b) % 97 - 40;
          int32_.push_back(static_cast<std::int32_t>(id));
          int64_.push_back(id);
          float32_.push_back(0.37f * static_cast<float>(id));
          float64_.push_back(0.731 * static_cast<double>(id));
        }
      }
    }
  }

  Positions positions() const {
    switch (case_.kind) {
      case Kind::kRange:
        return everywhere(Positions::range(-3));
      case Kind::kRowRange:
        return everywhere(Positions::range(first_));
      case Kind::kPacked:
        return everywhere(Positions::packed(boundaries_, starts_));
      case Kind::kInt32:
        return ids(int32_.data(), DType::kInt32);
      case Kind::kInt64:
      case Kind::kBatchIds:
        return ids(int64_.data(), DType::kInt64);
      case Kind::kFloat32:
        return ids(float32_.data(), DType::kFloat32);
      case Kind::kFloat64:
        return ids(float64_.data(), DType::kFloat64);
    }
    return Positions::range();
  }

  std::vector<long double> values() const {
    std::vector<long double> values;
    for (std::int64_t b = 0; b < case_.sizes.batch; ++b) {
      for (std::int64_t t = 0; t < case_.sizes.tokens; ++t) {
        for (std::int64_t a = 0; a < case_.axes; ++a) values.push_back(value(b, t, a));
      }
    }
    return values;
  }

 private:
  Positions everywhere(const Positions& one_axis) const {
    return case_.axes == 1 ? one_axis : one_axis.on_all_axes();
  }
  Positions ids(const void* data, DType dtype) const {
    const auto [batch, tokens, heads, head_dim] = case_.sizes;
    if (case_.kind == Kind::kBatchIds) {
      return Positions::ids(ConstTensorView{
          data, dtype, 3, {case_.axes, batch, tokens}, {1, case_.axes, batch * case_.axes}, {}});
    }
    return Positions::ids(
        ConstTensorView{data, dtype, 2, {case_.axes, tokens}, {1, case_.axes}, {}});
  }
  long double value(std::int64_t b, std::int64_t t, std::int64_t a) const {
    const std::int64_t rows = case_.kind == Kind::kBatchIds ? case_.sizes.batch : 1;
    const auto id = static_cast<std::size_t>((t * rows + (rows == 1 ? 0 : b)) * case_.axes + a);
    switch (case_.kind) {
      case Kind::kRange:
        return static_cast<long double>(t - 3);
      case Kind::kRowRange:
        return static_cast<long double>(100 * b - 50 + t);
      case Kind::kPacked: {
        const std::int64_t start = case_.sizes.tokens / 3;
        return static_cast<long double>(t < start ? 5 + t : -1000 + t - start);
      }
      case Kind::kFloat32:
        return static_cast<long double>(float32_[id]);
      case Kind::kFloat64:
        return static_cast<long double>(float64_[id]);
      default:
        return static_cast<long double>(int64_[id]);
    }
  }

  const Case& case_;
  std::vector<std::int64_t> first_;
  std::vector<std::int64_t> boundaries_;
  std::vector<std::int64_t> starts_;
  std::vector<std::int32_t> int32_;
  std::vector<std::int64_t> int64_;
  std::vector<float> float32_;
  std::vector<double> float64_;
};

void apply(const Rope& rope, Map map, const PlacedTensor& in, const PlacedTensor& out,
           const Positions& positions) {
  if (&in == &out) {
    if (map == Map::kRotate) return rope.rotate(out.view(), positions);
    if (map == Map::kUnrotate) return rope.unrotate(out.view(), positions);
    return rope.adjoint(out.view(), positions);
  }
  if (map == Map::kRotate) return rope.rotate(in.view(), out.view(), positions);
  if (map == Map::kUnrotate) return rope.unrotate(in.view(), out.view(), positions);
  return rope.adjoint(in.view(), out.view(), positions);
}

/// The element that forms a pair with element `i` of the slice written.
std::int64_t partner(const Case& c, std::int64_t i) {
  const Pairing written = c.map == Map::kRotate ? c.output : c.pairing;
  if (written == Pairing::kInterleaved) return i ^ 1;
  return i < kPairs ? i + kPairs : i - kPairs;
}

/// Where `out` must hold the rotation of `x`, and where the bits of `before`.
AssertionResult compare(const Case& c, const PlacedTensor& out, const reference::Elements& before,
                        const std::vector<long double>& x,
                        const std::vector<long double>& expected) {
  std::vector<bool> may_change(before.size(), false);
  const auto places = out.places();
  const std::int64_t offset = head_layout(c).rotary_offset;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int64_t dim = static_cast<std::int64_t>(i) % c.sizes.head_dim;
    const bool inside = dim >= offset && dim < offset + 2 * kPairs;
    may_change[places[i]] = inside || c.target == Target::kOutOfPlace;
    const auto got = static_cast<long double>(out.memory().get(places[i]));
    const long double wanted = inside ? expected[i] : x[i];
    long double tolerance = 0.0L;
    if (inside) {
      const std::size_t other = i - static_cast<std::size_t>(dim) +
                                static_cast<std::size_t>(offset + partner(c, dim - offset));
      tolerance = static_cast<long double>(units_of(c.dtype) * epsilon_of(c.dtype)) *
                  std::hypot(expected[i], expected[other]);
    }
    if (!(std::fabs(got - wanted) <= tolerance)) {
      return AssertionFailure() << c.name() << ": element " << i << " is " << got << ", expected "
                                << wanted << ", off by " << std::fabs(got - wanted) << ", allowed "
                                << tolerance;
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!may_change[i] && out.memory().bits(i) != before.bits(i)) {
      return AssertionFailure() << c.name() << ": memory outside the rotation changed, place " << i;
    }
  }
  return AssertionSuccess();
}

AssertionResult check(const Case& c) {
  const Frequencies f = frequencies(c.axes);
  const HeadLayout layout = head_layout(c);
  const Rope rope(f, layout);
  const PlacedTensor in(c.layout, c.dtype, c.sizes, 1);
  // Out of place goes to another layout of the same rank.
  const Layout other = c.layout == Layout::kRank3        ? Layout::kRank3
                       : c.layout == Layout::kContiguous ? Layout::kHeadsFirst
                                                         : Layout::kContiguous;
  const PlacedTensor out(other, c.dtype, c.sizes, 2);

  std::vector<long double> x;
  for (const std::size_t place : in.places()) {
    x.push_back(static_cast<long double>(in.memory().get(place)));
  }
  const TestPositions positions(c);
  const auto expected = reference::rotate(f, layout, c.map, x, c.sizes.heads, positions.values());

  const reference::Elements in_before = in.snapshot();
  const reference::Elements out_before = out.snapshot();
  if (c.target == Target::kInPlace) {
    apply(rope, c.map, in, in, positions.positions());
    return compare(c, in, in_before, x, expected);
  }
  apply(rope, c.map, in, out, positions.positions());
  if (!(in.memory() == in_before)) return AssertionFailure() << c.name() << ": input was written";
  return compare(c, out, out_before, x, expected);
}

/// Batch, tokens, heads; every case takes the next, and 7 shares no divisor with the other counts.
constexpr std::array<Sizes, 7> kSizes = {{{2, 5, 3, 0},
                                          {1, 1, 1, 0},
                                          {3, 2, 1, 0},
                                          {2, 0, 3, 0},
                                          {1, 7, 2, 0},
                                          {0, 4, 2, 0},
                                          {2, 3, 0, 0}}};

using Param = std::tuple<DType, Layout>;
class RotateTest : public testing::TestWithParam<Param> {};

TEST_P(RotateTest, MatchesTheReference) {
  const auto [dtype, layout] = GetParam();
  constexpr Pairing kPairings[] = {Pairing::kInterleaved, Pairing::kHalf};
  std::size_t count = 0;
  for (const Pairing pairing : kPairings) {
    for (const Pairing output : kPairings) {
      for (const Map map : {Map::kRotate, Map::kUnrotate, Map::kAdjoint}) {
        for (const Target target : {Target::kInPlace, Target::kOutOfPlace}) {
          for (const Slice slice :
               {Slice::kFull, Slice::kLeading, Slice::kOffset, Slice::kTrailing}) {
            for (int kind = 0; kind < 8; ++kind) {
              for (std::int64_t axes = 1; axes <= 4; ++axes) {
                Case c{dtype,   layout,
                       pairing, output,
                       map,     target,
                       slice,   static_cast<Kind>(kind),
                       axes,    kSizes[count++ % kSizes.size()]};
                if (layout == Layout::kRank3) c.sizes.batch = 1;
                c.sizes.head_dim = slice == Slice::kFull ? 2 * kPairs : 2 * kPairs + 5;
                ASSERT_TRUE(check(c));
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(count, 2u * 2 * 3 * 2 * 4 * 8 * 4);
}

INSTANTIATE_TEST_SUITE_P(All, RotateTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kFloat64,
                                                          DType::kBFloat16, DType::kFloat16),
                                          testing::Values(Layout::kContiguous, Layout::kRank3,
                                                          Layout::kHeadsFirst, Layout::kPackedQkv,
                                                          Layout::kInnerStride2,
                                                          Layout::kBackwards)),
                         [](const testing::TestParamInfo<Param>& param) {
                           return std::string(name_of(std::get<0>(param.param))) + "_" +
                                  std::string(name_of(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace rotary
