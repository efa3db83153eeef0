// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A rotation has the same bits in one call or many, with any layout, with positions in any form,
// from any thread.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "rope/placed_tensor.h"
#include "rotary/rope.h"

namespace rotary {
namespace {

constexpr std::int64_t kHeadDim = 20;
constexpr Sizes kSizes{.batch = 2, .tokens = 6, .heads = 3, .head_dim = kHeadDim};
constexpr std::int64_t kFirst = 131069;
constexpr unsigned kSeed = 7;

using Bits = std::vector<std::uint64_t>;
using Param = std::tuple<DType, Precision>;

class IdenticalTest : public testing::TestWithParam<Param> {
 protected:
  static DType dtype() { return std::get<0>(GetParam()); }

  static Rope make_rope(const AxisMap& axes = OneAxis{}, Pairing output = Pairing::kHalf) {
    return Rope(make_frequencies({.rotary_dim = 16,
                                  .theta = 1e4,
                                  .scaling = Yarn{.factor = 4, .original_context = 64},
                                  .axes = axes}),
                {.head_dim = kHeadDim,
                 .rotary_offset = 2,
                 .pairing = Pairing::kInterleaved,
                 .output_pairing = output},
                {.precision = std::get<1>(GetParam())});
  }
  static PlacedTensor input(Layout layout = Layout::kContiguous) {
    return {layout, dtype(), kSizes, kSeed};
  }
  /// The expected bits: one call, in place, contiguous, a range.
  static Bits expected(const Rope& rope) {
    const PlacedTensor x = input();
    rope.rotate(x.view(), Positions::range(kFirst));
    return x.bits();
  }
  static Bits rotated(const Rope& rope, const Positions& positions) {
    const PlacedTensor x = input();
    rope.rotate(x.view(), positions);
    return x.bits();
  }
};

/// A part of a view along one dimension.
TensorView part(const TensorView& view, std::size_t dim, std::int64_t first, std::int64_t count) {
  TensorView result = view;
  result.shape[dim] = count;
  result.data = static_cast<std::byte*>(view.data) +
                first * view.strides[dim] * static_cast<std::int64_t>(size_of(view.dtype));
  return result;
}

TEST_P(IdenticalTest, TokensSplitOverCalls) {
  const Rope rope = make_rope();
  for (const std::int64_t cut : {1, 2, 5}) {
    const PlacedTensor x = input();
    rope.rotate(part(x.view(), 1, cut, kSizes.tokens - cut), Positions::range(kFirst + cut));
    rope.rotate(part(x.view(), 1, 0, cut), Positions::range(kFirst));
    EXPECT_EQ(x.bits(), expected(rope)) << cut;
  }
}

TEST_P(IdenticalTest, HeadByHeadAndRowByRow) {
  const Rope rope = make_rope();
  const PlacedTensor heads = input();
  for (std::int64_t h = 0; h < kSizes.heads; ++h) {
    rope.rotate(part(heads.view(), 2, h, 1), Positions::range(kFirst));
  }
  EXPECT_EQ(heads.bits(), expected(rope));
  const PlacedTensor rows = input();
  for (std::int64_t b = 0; b < kSizes.batch; ++b) {
    rope.rotate(part(rows.view(), 0, b, 1), Positions::range(kFirst));
  }
  EXPECT_EQ(rows.bits(), expected(rope));
}

TEST_P(IdenticalTest, OutOfPlaceAndAnyLayout) {
  for (const Pairing output : {Pairing::kInterleaved, Pairing::kHalf}) {
    const Rope rope = make_rope(OneAxis{}, output);
    const Bits wanted = expected(rope);
    for (const Layout layout : {Layout::kContiguous, Layout::kHeadsFirst, Layout::kPackedQkv,
                                Layout::kHeadwiseQkv, Layout::kInnerStride2, Layout::kBackwards}) {
      PlacedTensor x(layout, dtype(), kSizes, 1);
      x.assign(input());
      const PlacedTensor out(Layout::kHeadsFirst, dtype(), kSizes, 2);
      rope.rotate(x.view(), out.view(), Positions::range(kFirst));
      EXPECT_EQ(out.bits(), wanted) << name_of(layout);
      rope.rotate(x.view(), Positions::range(kFirst));
      EXPECT_EQ(x.bits(), wanted) << name_of(layout);
      // The same view as input and output is in place.
      x.assign(input());
      rope.rotate(x.view(), x.view(), Positions::range(kFirst));
      EXPECT_EQ(x.bits(), wanted) << name_of(layout);
    }
  }
}

TEST_P(IdenticalTest, PositionsInAnyForm) {
  const Rope rope = make_rope();
  const Bits wanted = expected(rope);
  std::vector<std::int32_t> int32;
  std::vector<std::int64_t> int64;
  std::vector<float> float32;
  std::vector<double> float64;
  for (std::int64_t t = 0; t < kSizes.tokens; ++t) {
    int32.push_back(static_cast<std::int32_t>(kFirst + t));
    int64.push_back(kFirst + t);
    float32.push_back(static_cast<float>(kFirst + t));
    float64.push_back(static_cast<double>(kFirst + t));
  }
  EXPECT_EQ(rotated(rope, Positions::ids(int32)), wanted);
  EXPECT_EQ(rotated(rope, Positions::ids(int64)), wanted);
  EXPECT_EQ(rotated(rope, Positions::ids(float32)), wanted);
  EXPECT_EQ(rotated(rope, Positions::ids(float64)), wanted);
  const std::vector<std::int64_t> rows(kSizes.batch, kFirst);
  EXPECT_EQ(rotated(rope, Positions::range(rows)), wanted);
  const std::vector<std::int64_t> boundaries = {0, 0, 4, kSizes.tokens};
  const std::vector<std::int64_t> starts = {-5, kFirst, kFirst + 4};
  EXPECT_EQ(rotated(rope, Positions::packed(boundaries, starts)), wanted);
  // [1, batch, tokens], repeated by a stride of 0.
  const ConstTensorView repeated{
      int64.data(), DType::kInt64, 3, {1, kSizes.batch, kSizes.tokens}, {0, 0, 1}, {}};
  EXPECT_EQ(rotated(rope, Positions::ids(repeated)), wanted);
  EXPECT_EQ(rotated(rope, Positions::ids(int64).on_all_axes()), wanted);
}

// Tokens at one position: of the whole call, of a batch row, of a packed sequence.
TEST_P(IdenticalTest, TokensAtOnePosition) {
  const Rope rope = make_rope();
  const std::vector<std::int64_t> repeated(kSizes.tokens, kFirst);
  EXPECT_EQ(rotated(rope, Positions::at(kFirst)), rotated(rope, Positions::ids(repeated)));
  const std::vector<std::int64_t> rows = {kFirst, -3};
  std::vector<std::int64_t> by_row(kSizes.tokens, rows[0]);
  by_row.resize(2 * kSizes.tokens, rows[1]);
  EXPECT_EQ(rotated(rope, Positions::at(rows)),
            rotated(rope, Positions::ids(ConstTensorView::contiguous(by_row.data(), DType::kInt64,
                                                                     {1, 2, kSizes.tokens}))));
  const std::vector<std::int64_t> boundaries = {0, 1, 1, kSizes.tokens};
  const std::vector<std::int64_t> places = {7, -5, kFirst};
  std::vector<std::int64_t> by_token(kSizes.tokens, kFirst);
  by_token[0] = 7;
  EXPECT_EQ(rotated(rope, Positions::packed_at(boundaries, places)),
            rotated(rope, Positions::ids(by_token)));
}

// Packed sequences are rotated as in separate calls.
TEST_P(IdenticalTest, PackedSequencesOneByOne) {
  const Rope rope = make_rope();
  const std::vector<std::int64_t> boundaries = {0, 1, 4, kSizes.tokens};
  const PlacedTensor x = input();
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    const std::int64_t count = boundaries[s + 1] - boundaries[s];
    rope.rotate(part(x.view(), 1, boundaries[s], count), Positions::range());
  }
  EXPECT_EQ(rotated(rope, Positions::packed(boundaries)), x.bits());
}

// A text token of M-RoPE, with the same position on every axis, is rotated as with one axis.
TEST_P(IdenticalTest, EqualAxesAreOneAxis) {
  const Bits wanted = expected(make_rope());
  std::vector<std::int64_t> ids;
  for (int axis = 0; axis < 3; ++axis) {
    for (std::int64_t t = 0; t < kSizes.tokens; ++t) ids.push_back(kFirst + t);
  }
  for (const MropeOrder order : {MropeOrder::kChunked, MropeOrder::kInterleaved,
                                 MropeOrder::kRoundRobin, MropeOrder::kSpatialFirst}) {
    const Rope rope = make_rope(Mrope{.sections = {2, 3, 3}, .order = order});
    const auto view = ConstTensorView::contiguous(ids.data(), DType::kInt64, {3, kSizes.tokens});
    EXPECT_EQ(rotated(rope, Positions::ids(view)), wanted);
    EXPECT_EQ(rotated(rope, Positions::range(kFirst).on_all_axes()), wanted);
  }
}

TEST_P(IdenticalTest, UnrotateAndAdjointToo) {
  const Rope rope = make_rope();
  const auto calls = {std::function([&rope](const TensorView& x, const Positions& positions) {
                        rope.unrotate(x, positions);
                      }),
                      std::function([&rope](const TensorView& x, const Positions& positions) {
                        rope.adjoint(x, positions);
                      })};
  for (const auto& call : calls) {
    const PlacedTensor whole = input();
    call(whole.view(), Positions::range(kFirst));
    const PlacedTensor split = input();
    for (std::int64_t t = 0; t < kSizes.tokens; ++t) {
      call(part(split.view(), 1, t, 1), Positions::range(kFirst + t));
    }
    EXPECT_EQ(split.bits(), whole.bits());
  }
}

// One Rope in four threads, each with copies of it: there is no mutable state.
TEST_P(IdenticalTest, FromFourThreads) {
  const Rope rope = make_rope();
  const Bits wanted = expected(rope);
  const DType type = dtype();
  constexpr int kThreads = 4;
  constexpr int kRounds = 25;
  // Threads count failures; the main thread asserts.
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&rope, &wanted, &wrong, type, i] {
      for (int round = 0; round < kRounds; ++round) {
        const Rope copy = rope;
        const PlacedTensor x(Layout::kContiguous, type, kSizes, kSeed);
        (round % 2 == 0 ? rope : copy).rotate(x.view(), Positions::range(kFirst));
        if (x.bits() != wanted) ++wrong[static_cast<std::size_t>(i)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

INSTANTIATE_TEST_SUITE_P(All, IdenticalTest,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kFloat64,
                                                          DType::kBFloat16, DType::kFloat16),
                                          testing::Values(Precision::kExact,
                                                          Precision::kReference)),
                         [](const testing::TestParamInfo<Param>& param) {
                           return std::string(name_of(std::get<0>(param.param))) +
                                  (std::get<1>(param.param) == Precision::kExact ? "_exact"
                                                                                 : "_reference");
                         });

}  // namespace
}  // namespace rotary
