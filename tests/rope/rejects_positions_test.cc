// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Positions that Positions and Rope reject.

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rope/rejects.h"

namespace rotary::rejects_positions_test {
namespace {

TEST_F(RopeRejects, NonFinitePositions) {
  for (const auto& [value, text] :
       {std::pair{kNan, "got nan at token 2"}, {kInf, "got inf"}, {-kInf, "got -inf"}}) {
    const std::vector<double> float64 = {0.0, 1.0, value};
    rejects(Positions::ids(float64), "positions must be finite", text);
    const std::vector<float> float32 = {0.0f, 1.0f, static_cast<float>(value)};
    rejects(Positions::ids(float32), "positions must be finite", text);
  }
}

TEST_F(RopeRejects, WrongNumberOfPositions) {
  const std::vector<std::int64_t> ids(6, 0);
  const auto view = [&ids](std::initializer_list<std::int64_t> shape) {
    return Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, shape));
  };
  rejects(view({2}), "positions must be given for 3 tokens", "got 2");
  rejects(view({4}), "positions must be given for 3 tokens", "got 4");
  rejects(view({0}), "positions must be given for 3 tokens", "got 0");
  rejects(view({2, 3}), "positions must have 1 axis", "got 2");
  rejects(view({0, 3}), "positions must have 1 axis", "got 0");
  rejects(view({1, 2, 3}), "positions must be given for 1 batch rows", "got 2");
  rejects(view({1, 0, 3}), "positions must be given for 1 batch rows", "got 0");
  rejects(Positions::range(std::span(ids).first(2)), "positions must be given for 1 batch rows",
          "got 2");
  rejects(Positions::range(std::span(ids).first(0)), "positions must be given for 1 batch rows",
          "got 0");
  const std::vector<std::int64_t> boundaries = {0, 1, 2};
  rejects(Positions::packed(boundaries), "positions must be given for 3 tokens", "got 2");
  rejects(Positions::packed_at(boundaries, std::span(ids).first(2)),
          "positions must be given for 3 tokens", "got 2");
  rejects(Positions::at(std::span(ids).first(2)), "positions must be given for 1 batch rows",
          "got 2");
}

TEST_F(RopeRejects, PositionsOnAnotherDevice) {
  const std::vector<std::int64_t> ids(3, 0);
  const Device gpu{DeviceType::kCuda, 0};
  rejects(Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {3}, gpu)),
          "positions and tensor must be on the same device");
  rejects(Positions::ids(ConstTensorView::contiguous(nullptr, DType::kInt64, {3})),
          "positions have no memory");
  const auto one = ConstTensorView::contiguous(ids.data(), DType::kInt64, {1}, gpu);
  rejects(Positions::range(one), "positions and tensor must be on the same device");
  rejects(Positions::packed(ConstTensorView::contiguous(ids.data(), DType::kInt64, {2}, gpu)),
          "positions and tensor must be on the same device");
}

// Outputs would overwrite positions that are still to be read.
TEST_F(RopeRejects, PositionsOverlappingOutputs) {
  constexpr const char* kRule = "tensors that are written must not share memory with the positions";
  for (const std::int64_t at : {0, 11, 23}) {
    rejects(x(), kRule, "", ids_inside(x(), at));
    rejects(x(), y(), ids_inside(y(), at), kRule);
    expect_rejected([&] { rope().shift(x(), ids_inside(x(), at)); }, "shift", kRule);
    expect_rejected([&] { rerotate(x(), rope(), rope(), ids_inside(x(), at)); }, "rerotate", kRule);
  }
  // Every array that positions are read from.
  const std::vector<std::int32_t> boundaries = {0, 3};
  const auto row = ConstTensorView::contiguous(boundaries.data(), DType::kInt32, {2});
  const auto first = ConstTensorView::contiguous(y().data, DType::kInt32, {1});
  rejects(x(), y(), Positions::range(first), kRule);
  rejects(x(), y(), Positions::at(first), kRule);
  rejects(x(), y(), Positions::packed(row, first), kRule);
}

// Positions may be next to an output, and inside an input that is not written.
TEST(RopeAcceptsPositions, PositionsBesideOutputs) {
  const Rope rope(half_radians(), {.head_dim = 4, .pairing = Pairing::kHalf});
  std::vector<float> memory(24 + 3 + 24, 0.5f);
  const auto view = [&](std::size_t from, std::initializer_list<std::int64_t> shape) {
    return TensorView::contiguous(memory.data() + from, DType::kFloat32, shape);
  };
  EXPECT_NO_THROW(
      rope.rotate({view(0, {3, 2, 4}), view(27, {3, 2, 4})}, Positions::ids(view(24, {3}))));
  EXPECT_NO_THROW(
      rope.rotate(view(0, {3, 2, 4}), view(27, {3, 2, 4}), Positions::ids(view(5, {3}))));
}

// Ranges that overflow.
TEST_F(RopeRejects, PositionsBeyond64Bits) {
  constexpr const char* kRule = "positions must fit into 64 bits";
  rejects(Positions::range(kMax - 1), kRule, "got 3 tokens from 9223372036854775806");
  const std::vector<std::int64_t> first = {kMax - 1};
  rejects(Positions::range(first), kRule, "got 3 tokens from 9223372036854775806");
  const std::vector<std::int64_t> boundaries = {0, 1, 3};
  const std::vector<std::int64_t> starts = {0, kMax};
  rejects(Positions::packed(boundaries, starts), kRule, "got 2 tokens from 9223372036854775807");
}

// The largest integer is a valid position.
TEST(RopeAcceptsPositions, LargestPositions) {
  const Rope rope(half_radians(), {.head_dim = 4, .pairing = Pairing::kHalf});
  std::vector<float> x(24, 0.5f);
  const auto view = TensorView::contiguous(x.data(), DType::kFloat32, {3, 2, 4});
  EXPECT_NO_THROW(rope.rotate(view, Positions::range(kMax - 2)));
  EXPECT_NO_THROW(rope.rotate(view, Positions::range(-kMax - 1)));
  const std::vector<std::int64_t> boundaries = {0, 2, 3};
  const std::vector<std::int64_t> starts = {0, kMax};
  EXPECT_NO_THROW(rope.rotate(view, Positions::packed(boundaries, starts)));
  // All tokens at that position.
  EXPECT_NO_THROW(rope.rotate(view, Positions::at(kMax)));
  EXPECT_NO_THROW(rope.rotate(view, Positions::packed_at(boundaries, starts)));
}

TEST(PositionsReject, InvalidViews) {
  const std::vector<std::int64_t> ids(8, 0);
  const auto view = [&ids](DType dtype, std::initializer_list<std::int64_t> shape) {
    return ConstTensorView::contiguous(ids.data(), dtype, shape);
  };
  expect_rejected([&] { Positions::ids(view(DType::kInt64, {1, 1, 1, 8})); }, "Positions::ids",
                  "positions must be [tokens], [axes, tokens] or [axes, batch, tokens]",
                  "got rank 4");
  expect_rejected([&] { Positions::ids(view(DType::kInt64, {})); }, "Positions::ids",
                  "positions must be [tokens]", "got rank 0");
  expect_rejected([&] { Positions::ids(view(DType::kFloat16, {8})); }, "Positions::ids",
                  "positions must be int32, int64, float32 or float64", "got float16");
  expect_rejected([&] { Positions::ids(view(DType::kBFloat16, {8})); }, "Positions::ids",
                  "positions must be int32, int64, float32 or float64", "got bfloat16");
  ConstTensorView negative = view(DType::kInt64, {8});
  negative.shape[0] = -1;
  expect_rejected([&] { Positions::ids(negative); }, "Positions::ids", "sizes must not be negative",
                  "got -1");
  expect_rejected([&] { Positions::ids(view(DType::kInt64, {2, 4})).on_all_axes(); },
                  "Positions::on_all_axes", "positions must have one axis", "got 2");
}

TEST(PositionsReject, InvalidBoundaries) {
  const auto packed = [](std::vector<std::int64_t> boundaries,
                         std::vector<std::int64_t> first = {}) {
    return [boundaries = std::move(boundaries), first = std::move(first)] {
      Positions::packed(boundaries, first);
    };
  };
  constexpr const char* kName = "Positions::packed";
  expect_rejected(packed({}), kName, "boundaries must begin with 0", "got none");
  expect_rejected(packed({1, 3}), kName, "boundaries must begin with 0", "got 1");
  expect_rejected(packed({-1, 3}), kName, "boundaries must begin with 0", "got -1");
  expect_rejected(packed({0, 3, 2}), kName, "boundaries must not fall", "got 2 after 3");
  expect_rejected(packed({0, 3}, {1, 2}), kName, "first must have one entry a sequence (1)",
                  "got 2");
}

TEST(PositionsReject, InvalidRows) {
  const std::vector<std::int32_t> values = {0, 2, 5, 9};
  const auto row = [&values](std::int64_t size, DType dtype = DType::kInt32) {
    return ConstTensorView::contiguous(values.data(), dtype, {size});
  };
  ConstTensorView apart = row(2);
  apart.strides[0] = 2;
  ConstTensorView negative = row(2);
  negative.shape[0] = -2;
  ConstTensorView nowhere = row(2);
  nowhere.data = nullptr;
  ConstTensorView elsewhere = row(2);
  elsewhere.device = {DeviceType::kCuda, 0};
  ConstTensorView table = row(4);
  table.rank = 2;

  expect_rejected([&] { Positions::range(row(2, DType::kFloat32)); }, "Positions::range",
                  "first must be a row of int32 or int64", "got float32 of rank 1");
  expect_rejected([&] { Positions::at(table); }, "Positions::at",
                  "position must be a row of int32 or int64", "got int32 of rank 2");
  expect_rejected([&] { Positions::range(negative); }, "Positions::range",
                  "sizes must not be negative", "got -2");
  expect_rejected([&] { Positions::range(nowhere); }, "Positions::range", "first has no memory");
  constexpr const char* kPacked = "Positions::packed";
  expect_rejected([&] { Positions::packed(apart); }, kPacked, "boundaries must lie without gaps",
                  "got stride 2");
  expect_rejected([&] { Positions::packed(row(3), row(3)); }, kPacked,
                  "first must have one entry a sequence (2)", "got 3");
  constexpr const char* kAlike = "must have the type and device of boundaries, without gaps";
  expect_rejected([&] { Positions::packed(row(3), apart); }, kPacked, kAlike);
  expect_rejected([&] { Positions::packed(row(3), elsewhere); }, kPacked, kAlike);
  expect_rejected([&] { Positions::packed_at(row(3), row(2, DType::kInt64)); },
                  "Positions::packed_at", kAlike);
}

TEST(PositionsReject, InvalidPackedAt) {
  const auto packed = [](std::vector<std::int64_t> boundaries, std::vector<std::int64_t> position) {
    return [boundaries = std::move(boundaries), position = std::move(position)] {
      Positions::packed_at(boundaries, position);
    };
  };
  constexpr const char* kName = "Positions::packed_at";
  expect_rejected(packed({}, {}), kName, "boundaries must begin with 0", "got none");
  expect_rejected(packed({1, 3}, {0}), kName, "boundaries must begin with 0", "got 1");
  expect_rejected(packed({0, 3, 2}, {0, 0}), kName, "boundaries must not fall", "got 2 after 3");
  expect_rejected(packed({0, 3}, {1, 2}), kName, "one entry a sequence (1)", "got 2");
  // Unlike the first positions of packed(), positions have no default here.
  expect_rejected(packed({0, 3}, {}), kName, "one entry a sequence (1)", "got 0");
}

// One-axis positions on a rope of several axes need on_all_axes().
TEST(PositionsReject, OneAxisForSeveral) {
  const Rope rope(half_radians(2, 3), {.head_dim = 4, .pairing = Pairing::kHalf});
  std::vector<float> x(24, 0.5f);
  const std::vector<float> before = x;
  const auto view = TensorView::contiguous(x.data(), DType::kFloat32, {3, 2, 4});
  const std::vector<std::int64_t> ids(6, 1);
  const auto two = ConstTensorView::contiguous(ids.data(), DType::kInt64, {2, 3});
  constexpr const char* kRule = "positions must have 3 axes";
  expect_rejected([&] { rope.rotate(view, Positions::range()); }, "rotate", kRule, "got 1");
  expect_rejected([&] { rope.rotate(view, Positions::ids(std::span(ids).first(3))); }, "rotate",
                  kRule, "got 1");
  expect_rejected([&] { rope.rotate(view, Positions::ids(two)); }, "rotate", kRule, "got 2");
  EXPECT_EQ(x, before);
  EXPECT_NO_THROW(rope.rotate(view, Positions::range().on_all_axes()));
}

// An empty tensor needs no memory; its positions must still match.
TEST(RopeAcceptsPositions, EmptyTensorsWithoutMemory) {
  const Rope rope(half_radians(), {.head_dim = 4, .pairing = Pairing::kHalf});
  const auto empty = [](std::int64_t batch, std::int64_t tokens, std::int64_t heads) {
    return TensorView::contiguous(nullptr, DType::kFloat32, {batch, tokens, heads, 4});
  };
  const std::span<const std::int64_t> none;
  EXPECT_NO_THROW(rope.rotate(empty(0, 3, 2), Positions::range()));
  EXPECT_NO_THROW(rope.rotate(empty(2, 0, 2), Positions::ids(none)));
  EXPECT_NO_THROW(rope.rotate(empty(2, 3, 0), Positions::range()));
  EXPECT_NO_THROW(rope.rotate(empty(0, 3, 2), Positions::range(none)));
  const std::vector<std::int64_t> nothing = {0};
  EXPECT_NO_THROW(rope.rotate(empty(2, 0, 2), Positions::packed(nothing)));
  const std::vector<std::int64_t> ids(2, 0);
  expect_rejected([&] { rope.rotate(empty(2, 0, 2), Positions::ids(ids)); }, "rotate",
                  "positions must be given for 0 tokens", "got 2");
}

}  // namespace
}  // namespace rotary::rejects_positions_test
