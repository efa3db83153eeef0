// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tables and positions that TableRope rejects.

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "rope/rejects.h"
#include "rotary/table.h"

namespace rotary::rejects_table_test {
namespace {

class TableRopeRejects : public RopeRejects {
 protected:
  static constexpr std::int64_t kPairs = 2;

  ConstTensorView part(std::initializer_list<std::int64_t> shape,
                       DType dtype = DType::kFloat32) const {
    return ConstTensorView::contiguous(memory_.data(), dtype, shape);
  }
  CosSinTable table(std::initializer_list<std::int64_t> shape) const {
    return {part(shape), part(shape)};
  }
  static HeadLayout layout() { return {.head_dim = 4, .pairing = Pairing::kHalf}; }

  static void constructor_rejects(const CosSinTable& table, const std::string& rule,
                                  const HeadLayout& head = layout(),
                                  TableWidth width = TableWidth::kPairs) {
    expect_rejected([&] { const TableRope rope(table, head, width); }, "TableRope", rule);
  }
  /// All three directions reject the arguments.
  void rejects(const TableRope& rope, const Positions& positions, const std::string& rule,
               const std::string& value = "") {
    expect_rejected([&] { rope.rotate(x(), positions); }, "rotate", rule, value);
    expect_rejected([&] { rope.unrotate(x(), positions); }, "unrotate", rule, value);
    expect_rejected([&] { rope.adjoint({{x(), y()}}, positions); }, "adjoint", rule, value);
  }
  void rejects(const TableRope& rope, const std::string& rule, const std::string& value = "") {
    expect_rejected([&] { rope.rotate(x()); }, "rotate", rule, value);
    expect_rejected([&] { rope.unrotate(x()); }, "unrotate", rule, value);
    expect_rejected([&] { rope.adjoint({{x(), y()}}); }, "adjoint", rule, value);
  }

 private:
  std::vector<double> memory_ = std::vector<double>(64, 0.5);
};

TEST_F(TableRopeRejects, WrongShape) {
  constructor_rejects({}, "[rows, width]");
  constructor_rejects(table({4}), "[rows, width]");
  constructor_rejects(table({1, 1, 3, 2}), "[rows, width]");
  constructor_rejects({part({3, 2}), part({4, 2})}, "shape");
  constructor_rejects({part({3, 2}), part({3, 1})}, "shape");
  constructor_rejects({part({3, 2}), part({2, 3, 2})}, "shape");
  ConstTensorView negative = part({3, 2});
  negative.shape[0] = -3;
  constructor_rejects({negative, negative}, "negative");
}

TEST_F(TableRopeRejects, WrongTypeOrDevice) {
  constructor_rejects({part({3, 2}), part({3, 2}, DType::kFloat64)}, "type");
  constructor_rejects({part({3, 2}, DType::kInt32), part({3, 2}, DType::kInt32)}, "floating-point");
  ConstTensorView elsewhere = part({3, 2});
  elsewhere.device = {DeviceType::kCuda, 0};
  constructor_rejects({part({3, 2}), elsewhere}, "device");
  rejects(TableRope({elsewhere, elsewhere}, layout(), TableWidth::kPairs), "on the same device");
  ConstTensorView nowhere = part({3, 2});
  nowhere.data = nullptr;
  constructor_rejects({part({3, 2}), nowhere}, "no memory");
}

TEST_F(TableRopeRejects, WrongWidth) {
  constructor_rejects(table({3, 3}), "the rotary slice must fit");
  constructor_rejects(table({3, 0}), "at least one pair");
  constructor_rejects(table({3, 3}), "even", layout(), TableWidth::kTwicePairs);
  constructor_rejects(table({3, 6}), "the rotary slice must fit", layout(),
                      TableWidth::kTwicePairs);
  constructor_rejects(table({3, 2}), "the rotary slice must fit",
                      {.head_dim = 4, .rotary_offset = 1, .pairing = Pairing::kHalf});
  constructor_rejects(table({3, 2}), "head_dim must be positive", {.pairing = Pairing::kHalf});
  constructor_rejects(table({3, 2}), "pairing must be given", {.head_dim = 4});
}

// x() is [3 tokens, 2 heads, 4], one batch row.
TEST_F(TableRopeRejects, WrongNumberOfRows) {
  rejects(TableRope(table({2, kPairs}), layout(), TableWidth::kPairs), "3 tokens", "got 2");
  rejects(TableRope(table({4, kPairs}), layout(), TableWidth::kPairs), "3 tokens", "got 4");
  rejects(TableRope(table({2, 3, kPairs}), layout(), TableWidth::kPairs), "1 batch rows", "got 2");
}

TEST_F(TableRopeRejects, PositionsOutsideTheTable) {
  const TableRope rope(table({5, kPairs}), layout(), TableWidth::kPairs);
  constexpr const char* kRule = "positions must be rows of the table, 0 to 4";
  rejects(rope, Positions::range(3), kRule, "got 5 at token");
  rejects(rope, Positions::range(-1), kRule, "got -1 at token");
  rejects(rope, Positions::at(5), kRule, "got 5 at token");
  const std::vector<std::int32_t> ids = {0, 4, -1};
  rejects(rope, Positions::ids(ids), kRule, "got -1 at token");
  const std::vector<std::int64_t> far = {0, kMax, 1};
  rejects(rope, Positions::ids(far), kRule, "got 9223372036854775807 at token 1");
  const std::vector<std::int64_t> boundaries = {0, 1, 3};
  const std::vector<std::int64_t> starts = {4, 4};
  rejects(rope, Positions::packed(boundaries, starts), kRule, "got 5 at token");
  const std::vector<std::int64_t> first = {3};
  rejects(rope, Positions::range(first), kRule, "got 5 at token");
  EXPECT_NO_THROW(TableRope(table({5, kPairs}), layout(), TableWidth::kPairs)
                      .rotate({}, Positions::range(100)));
}

TEST_F(TableRopeRejects, RealOrMismatchedPositions) {
  const TableRope rope(table({5, kPairs}), layout(), TableWidth::kPairs);
  const std::vector<float> real = {0.0f, 1.0f, 2.0f};
  rejects(rope, Positions::ids(real), "positions must be whole numbers");
  const std::vector<std::int64_t> ids(6, 0);
  rejects(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {2, 3})),
          "1 axis", "got 2");
  rejects(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {2})),
          "3 tokens", "got 2");
  rejects(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, 2, 3})),
          "1 batch rows", "got 2");
}

TEST_F(TableRopeRejects, PositionsOverlappingOutputs) {
  const TableRope rope(table({3, kPairs}), layout(), TableWidth::kPairs);
  constexpr const char* kRule = "tensors that are written must not share memory with the positions";
  expect_rejected([&] { rope.rotate(x(), ids_inside(x(), 23)); }, "rotate", kRule);
  expect_rejected([&] { rope.unrotate(x(), ids_inside(x(), 0)); }, "unrotate", kRule);
  expect_rejected([&] { rope.adjoint({{x(), y()}}, ids_inside(y(), 11)); }, "adjoint", kRule);
}

TEST_F(TableRopeRejects, InvalidTensors) {
  const TableRope rope(table({3, kPairs}), layout(), TableWidth::kPairs);
  TensorView wrong = x();
  wrong.shape[2] = 5;
  expect_rejected([&] { rope.rotate(wrong); }, "rotate", "the last size must be head_dim 4");
  wrong = x();
  wrong.strides[0] = 0;
  expect_rejected([&] { rope.unrotate(wrong); }, "unrotate", "must not share memory");
  expect_rejected([&] { rope.adjoint({x(), x()}); }, "adjoint", "share");
}

// A table without rows is valid, for no tokens.
TEST_F(TableRopeRejects, TokensWithoutRows) {
  const TableRope rope(table({0, kPairs}), layout(), TableWidth::kPairs);
  rejects(rope, "3 tokens", "got 0");
  EXPECT_NO_THROW(
      rope.rotate(TensorView::contiguous(nullptr, DType::kFloat32, {0, kHeads, kHeadDim})));
}

}  // namespace
}  // namespace rotary::rejects_table_test
