// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Properties of each kind of positions, and PositionReader in any order.

#include "rotary/positions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/position_reader.h"

namespace rotary::positions_test {
namespace {

using internal::PositionReader;

TEST(Positions, Ranges) {
  const Positions one = Positions::range(-2);
  EXPECT_EQ(one.kind(), Positions::Kind::kRange);
  EXPECT_EQ(one.axes(), 1);
  EXPECT_EQ(one.batch(), -1);
  EXPECT_EQ(one.tokens(), -1);
  EXPECT_FALSE(one.real_valued());
  EXPECT_EQ(PositionReader(one).at(0, 5, 3).integer, 1);

  const std::vector<std::int64_t> first = {10, -10};
  const Positions rows = Positions::range(first);
  EXPECT_EQ(rows.batch(), 2);
  EXPECT_EQ(rows.tokens(), -1);
  EXPECT_EQ(PositionReader(rows).at(0, 1, 3).integer, -7);
  EXPECT_EQ(PositionReader(rows).at(0, 0, 3).integer, 13);

  // Zero rows are not "any number of rows".
  EXPECT_EQ(Positions::range(std::span(first).first(0)).batch(), 0);
}

// Rows of int32, as attention libraries pass them, equal lists of int64.
TEST(Positions, NarrowRows) {
  const std::vector<std::int32_t> narrow = {0, 2, 2, 5};
  const std::vector<std::int64_t> wide = {0, 2, 2, 5};
  const std::vector<std::int32_t> narrow_first = {7, -1, 40};
  const std::vector<std::int64_t> wide_first = {7, -1, 40};
  const auto boundaries = ConstTensorView::contiguous(narrow.data(), DType::kInt32, {4});
  const auto first = ConstTensorView::contiguous(narrow_first.data(), DType::kInt32, {3});
  const auto same = [](const Positions& a, const Positions& b, std::int64_t batch) {
    EXPECT_EQ(a.kind(), b.kind());
    EXPECT_EQ(a.batch(), b.batch());
    EXPECT_EQ(a.tokens(), b.tokens());
    EXPECT_EQ(a.step(), b.step());
    for (std::int64_t i = 0; i < batch; ++i) {
      for (const std::int64_t t : {4, 0, 3, 1, 2}) {
        EXPECT_EQ(PositionReader(a).at(0, i, t).integer, PositionReader(b).at(0, i, t).integer);
      }
    }
  };
  same(Positions::packed(boundaries), Positions::packed(wide), 1);
  same(Positions::packed(boundaries, first), Positions::packed(wide, wide_first), 1);
  same(Positions::packed_at(boundaries, first), Positions::packed_at(wide, wide_first), 1);
  same(Positions::range(first), Positions::range(wide_first), 3);
  same(Positions::at(first), Positions::at(wide_first), 3);

  // Every second entry.
  ConstTensorView strided = boundaries;
  strided.shape[0] = 2;
  strided.strides[0] = 2;
  EXPECT_EQ(PositionReader(Positions::range(strided)).at(0, 1, 1).integer, 3);
}

// Device memory is not read: such boundaries match any number of tokens.
TEST(Positions, RowsOnADevice) {
  const Device gpu{DeviceType::kCuda, 0};
  int somewhere = 0;  // stands for device memory
  const auto rows = ConstTensorView::contiguous(&somewhere, DType::kInt32, {3}, gpu);
  EXPECT_EQ(Positions::packed(rows).tokens(), -1);
  EXPECT_EQ(Positions::packed(rows).batch(), -1);
  EXPECT_EQ(Positions::range(rows).batch(), 3);
}

TEST(Positions, Ids) {
  const std::vector<float> ids = {0.0f, 1.5f, -2.5f, 3.0f, 4.0f, 5.0f};
  const Positions list = Positions::ids(ids);
  EXPECT_EQ(list.axes(), 1);
  EXPECT_EQ(list.batch(), -1);
  EXPECT_EQ(list.tokens(), 6);
  EXPECT_TRUE(list.real_valued());
  const internal::Position read = PositionReader(list).at(0, 0, 2);
  EXPECT_TRUE(read.is_real);
  EXPECT_EQ(read.real, -2.5);

  const auto view = [&ids](std::initializer_list<std::int64_t> shape) {
    return Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kFloat32, shape));
  };
  EXPECT_EQ(view({2, 3}).axes(), 2);
  EXPECT_EQ(view({2, 3}).batch(), -1);
  EXPECT_EQ(view({2, 3}).tokens(), 3);
  EXPECT_EQ(PositionReader(view({2, 3})).at(1, 7, 2).real, 5.0);
  EXPECT_EQ(view({1, 2, 3}).batch(), 2);
  EXPECT_EQ(PositionReader(view({1, 2, 3})).at(0, 1, 0).real, 3.0);
  // One row is shared by all batch rows; zero rows match none.
  EXPECT_EQ(view({2, 1, 3}).batch(), -1);
  EXPECT_EQ(PositionReader(view({2, 1, 3})).at(1, 4, 0).real, 3.0);
  EXPECT_EQ(view({2, 0, 3}).batch(), 0);
}

TEST(Positions, OnAllAxes) {
  const std::vector<std::int32_t> ids = {4, 5, 6};
  EXPECT_FALSE(Positions::ids(ids).same_on_all_axes());
  const Positions all = Positions::ids(ids).on_all_axes();
  EXPECT_TRUE(all.same_on_all_axes());
  for (std::int64_t axis = 0; axis < 4; ++axis) {
    EXPECT_EQ(PositionReader(all).at(axis, 0, 1).integer, 5);
  }
}

TEST(Positions, At) {
  const Positions one = Positions::at(-7);
  EXPECT_EQ(one.kind(), Positions::Kind::kRange);
  EXPECT_EQ(one.step(), 0);
  EXPECT_EQ(one.axes(), 1);
  EXPECT_EQ(one.batch(), -1);
  EXPECT_EQ(one.tokens(), -1);
  EXPECT_FALSE(one.real_valued());
  for (const std::int64_t token : {0, 1, 1000}) {
    EXPECT_EQ(PositionReader(one).at(0, 3, token).integer, -7) << token;
  }
  EXPECT_EQ(Positions::range(4).step(), 1);

  const std::vector<std::int64_t> rows = {10, -10};
  const Positions by_row = Positions::at(rows);
  EXPECT_EQ(by_row.batch(), 2);
  EXPECT_EQ(by_row.tokens(), -1);
  EXPECT_EQ(PositionReader(by_row).at(0, 1, 3).integer, -10);
  EXPECT_EQ(PositionReader(by_row).at(0, 0, 3).integer, 10);
  EXPECT_EQ(Positions::at(std::span(rows).first(0)).batch(), 0);
  EXPECT_EQ(PositionReader(by_row.on_all_axes()).at(2, 1, 9).integer, -10);
}

TEST(Positions, PackedAt) {
  const std::vector<std::int64_t> boundaries = {0, 2, 2, 5, 6};
  const std::vector<std::int64_t> places = {4, 50, 100, -1};
  const Positions packed = Positions::packed_at(boundaries, places);
  EXPECT_EQ(packed.kind(), Positions::Kind::kPacked);
  EXPECT_EQ(packed.step(), 0);
  EXPECT_EQ(packed.tokens(), 6);
  EXPECT_EQ(packed.batch(), -1);
  EXPECT_EQ(Positions::packed(boundaries).step(), 1);
  const std::vector<std::int64_t> expected = {4, 4, 100, 100, 100, -1};
  PositionReader reader(packed);
  for (const std::int64_t token : {0, 1, 2, 3, 4, 5, 4, 2, 0, 5}) {
    EXPECT_EQ(reader.at(0, 0, token).integer, expected[static_cast<std::size_t>(token)]) << token;
  }
}

TEST(Positions, Packed) {
  const std::vector<std::int64_t> boundaries = {0, 2, 2, 5, 6};
  const std::vector<std::int64_t> first = {0, 50, 100, -1};
  const Positions plain = Positions::packed(boundaries);
  const Positions placed = Positions::packed(boundaries, first);
  EXPECT_EQ(plain.tokens(), 6);
  EXPECT_EQ(plain.batch(), -1);
  const std::vector<std::int64_t> from_zero = {0, 1, 0, 1, 2, 0};
  const std::vector<std::int64_t> from_first = {0, 1, 100, 101, 102, -1};
  PositionReader plain_reader(plain);
  PositionReader placed_reader(placed);
  // Forwards and backwards: an engine may read tokens in any order.
  for (const std::int64_t token : {0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 5, 0, 2}) {
    const auto at = static_cast<std::size_t>(token);
    EXPECT_EQ(plain_reader.at(0, 0, token).integer, from_zero[at]) << token;
    EXPECT_EQ(placed_reader.at(0, 0, token).integer, from_first[at]) << token;
  }
}

}  // namespace
}  // namespace rotary::positions_test
