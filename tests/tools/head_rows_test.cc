// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rows of projections in another pairing.
#include "tools/weights/head_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "rotary/rope.h"

namespace rotary::cli {
namespace {

using testing::ElementsAre;

TEST(RowSources, OneHead) {
  const std::vector<HeadRows> heads{{.num_heads = 1, .stride = 8, .rotary_dim = 6}};
  EXPECT_THAT(row_sources(8, heads, Pairing::kHalf, Pairing::kInterleaved),
              ElementsAre(0, 3, 1, 4, 2, 5, 6, 7));
  EXPECT_THAT(row_sources(8, heads, Pairing::kInterleaved, Pairing::kHalf),
              ElementsAre(0, 2, 4, 1, 3, 5, 6, 7));
}

TEST(RowSources, SliceInsideEachHead) {
  const std::vector<HeadRows> heads{
      {.num_heads = 2, .stride = 6, .rotary_offset = 2, .rotary_dim = 4}};
  EXPECT_THAT(row_sources(12, heads, Pairing::kHalf, Pairing::kInterleaved),
              ElementsAre(0, 1, 2, 4, 3, 5, 6, 7, 8, 10, 9, 11));
}

TEST(RowSources, FusedHeadsKeepTheirValues) {
  // Of each of two heads its q, k and v, as in GPT-NeoX.
  const std::vector<HeadRows> heads{
      {.first_row = 0, .num_heads = 2, .stride = 12, .rotary_dim = 4},
      {.first_row = 4, .num_heads = 2, .stride = 12, .rotary_dim = 4}};
  EXPECT_THAT(row_sources(24, heads, Pairing::kHalf, Pairing::kInterleaved),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 9, 10, 11,  //
                          12, 14, 13, 15, 16, 18, 17, 19, 20, 21, 22, 23));
}

TEST(RowSources, ThereAndBackIsTheIdentity) {
  for (const std::int64_t rotary_dim : {2, 4, 6, 64, 126}) {
    const std::vector<HeadRows> heads{{.first_row = 3,
                                       .num_heads = 5,
                                       .stride = 130,
                                       .rotary_offset = 4,
                                       .rotary_dim = rotary_dim}};
    const std::int64_t rows = 3 + 5 * 130;
    const auto there = row_sources(rows, heads, Pairing::kHalf, Pairing::kInterleaved);
    const auto back = row_sources(rows, heads, Pairing::kInterleaved, Pairing::kHalf);
    std::vector<std::int64_t> both;
    for (const std::int64_t row : back) both.push_back(there[static_cast<std::size_t>(row)]);
    std::vector<std::int64_t> identity(static_cast<std::size_t>(rows));
    std::iota(identity.begin(), identity.end(), std::int64_t{0});
    EXPECT_EQ(both, identity) << rotary_dim;
  }
}

/// The promise: what one pairing does to the permuted elements is, permuted, what the other does.
TEST(RowSources, PermutedHeadsRotateAlike) {
  const std::vector<std::int64_t> sources = row_sources(
      10,
      std::vector<HeadRows>{{.num_heads = 1, .stride = 10, .rotary_offset = 2, .rotary_dim = 6}},
      Pairing::kHalf, Pairing::kInterleaved);
  std::vector<float> half(10);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = 0.25F * static_cast<float>(i) - 1.0F;
  std::vector<float> interleaved;
  for (const std::int64_t row : sources) interleaved.push_back(half[static_cast<std::size_t>(row)]);
  const Frequencies frequencies = make_frequencies({.rotary_dim = 6, .theta = 10000.0});
  const auto rotated = [&](std::vector<float> head, Pairing pairing) {
    const Rope rope(frequencies, {.head_dim = 10, .rotary_offset = 2, .pairing = pairing});
    rope.rotate(TensorView::contiguous(head.data(), DType::kFloat32, {1, 1, 10}),
                Positions::range(1234));
    return head;
  };
  const std::vector<float> expected = rotated(half, Pairing::kHalf);
  const std::vector<float> actual = rotated(interleaved, Pairing::kInterleaved);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(actual[i], expected[static_cast<std::size_t>(sources[i])]) << i;
  }
  EXPECT_NE(actual[2], interleaved[2]);
}

}  // namespace
}  // namespace rotary::cli
