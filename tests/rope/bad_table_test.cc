// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What TableRope refuses: tables that do not fit, and positions that are no rows of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "rope/refused.h"
#include "rotary/table.h"

namespace rotary {
namespace {

class BadTable : public BadCall {
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

  static void not_made(const CosSinTable& table, const std::string& rule,
                       const HeadLayout& head = layout(), TableWidth width = TableWidth::kPairs) {
    expect_refused([&] { const TableRope rope(table, head, width); }, "TableRope", rule);
  }
  /// By each of the three maps.
  void refused(const TableRope& rope, const Positions& positions, const std::string& rule,
               const std::string& value = "") {
    expect_refused([&] { rope.rotate(x(), positions); }, "rotate", rule, value);
    expect_refused([&] { rope.unrotate(x(), positions); }, "unrotate", rule, value);
    expect_refused([&] { rope.adjoint({{x(), y()}}, positions); }, "adjoint", rule, value);
  }
  void refused(const TableRope& rope, const std::string& rule, const std::string& value = "") {
    expect_refused([&] { rope.rotate(x()); }, "rotate", rule, value);
    expect_refused([&] { rope.unrotate(x()); }, "unrotate", rule, value);
    expect_refused([&] { rope.adjoint({{x(), y()}}); }, "adjoint", rule, value);
  }

 private:
  std::vector<double> memory_ = std::vector<double>(64, 0.5);
};

TEST_F(BadTable, Shape) {
  not_made({}, "[rows, width]");
  not_made(table({4}), "[rows, width]");
  not_made(table({1, 1, 3, 2}), "[rows, width]");
  not_made({part({3, 2}), part({4, 2})}, "shape");
  not_made({part({3, 2}), part({3, 1})}, "shape");
  not_made({part({3, 2}), part({2, 3, 2})}, "shape");
  ConstTensorView negative = part({3, 2});
  negative.shape[0] = -3;
  not_made({negative, negative}, "negative");
}

TEST_F(BadTable, TypeAndDevice) {
  not_made({part({3, 2}), part({3, 2}, DType::kFloat64)}, "type");
  not_made({part({3, 2}, DType::kInt32), part({3, 2}, DType::kInt32)}, "floating-point");
  ConstTensorView elsewhere = part({3, 2});
  elsewhere.device = {DeviceType::kCuda, 0};
  not_made({part({3, 2}), elsewhere}, "device");
  refused(TableRope({elsewhere, elsewhere}, layout(), TableWidth::kPairs), "on the same device");
  ConstTensorView nowhere = part({3, 2});
  nowhere.data = nullptr;
  not_made({part({3, 2}), nowhere}, "no memory");
}

TEST_F(BadTable, Width) {
  not_made(table({3, 3}), "the rotary slice must fit");
  not_made(table({3, 0}), "at least one pair");
  not_made(table({3, 3}), "even", layout(), TableWidth::kTwicePairs);
  not_made(table({3, 6}), "the rotary slice must fit", layout(), TableWidth::kTwicePairs);
  not_made(table({3, 2}), "the rotary slice must fit",
           {.head_dim = 4, .rotary_offset = 1, .pairing = Pairing::kHalf});
  not_made(table({3, 2}), "head_dim must be positive", {.pairing = Pairing::kHalf});
  not_made(table({3, 2}), "pairing must be given", {.head_dim = 4});
}

// x() is [3 tokens, 2 heads, 4], one batch row.
TEST_F(BadTable, RowsOfTokens) {
  refused(TableRope(table({2, kPairs}), layout(), TableWidth::kPairs), "3 tokens", "got 2");
  refused(TableRope(table({4, kPairs}), layout(), TableWidth::kPairs), "3 tokens", "got 4");
  refused(TableRope(table({2, 3, kPairs}), layout(), TableWidth::kPairs), "1 batch rows", "got 2");
}

TEST_F(BadTable, PositionsThatAreNoRows) {
  const TableRope rope(table({5, kPairs}), layout(), TableWidth::kPairs);
  constexpr const char* kRule = "positions must be rows of the table, 0 to 4";
  refused(rope, Positions::range(3), kRule, "got 5 at token");
  refused(rope, Positions::range(-1), kRule, "got -1 at token");
  refused(rope, Positions::at(5), kRule, "got 5 at token");
  const std::vector<std::int32_t> ids = {0, 4, -1};
  refused(rope, Positions::ids(ids), kRule, "got -1 at token");
  const std::vector<std::int64_t> far = {0, kMax, 1};
  refused(rope, Positions::ids(far), kRule, "got 9223372036854775807 at token 1");
  const std::vector<std::int64_t> boundaries = {0, 1, 3};
  const std::vector<std::int64_t> starts = {4, 4};
  refused(rope, Positions::packed(boundaries, starts), kRule, "got 5 at token");
  const std::vector<std::int64_t> first = {3};
  refused(rope, Positions::range(first), kRule, "got 5 at token");
  EXPECT_NO_THROW(TableRope(table({5, kPairs}), layout(), TableWidth::kPairs)
                      .rotate({}, Positions::range(100)));
}

TEST_F(BadTable, PositionsOfAnotherKind) {
  const TableRope rope(table({5, kPairs}), layout(), TableWidth::kPairs);
  const std::vector<float> real = {0.0f, 1.0f, 2.0f};
  refused(rope, Positions::ids(real), "positions must be whole numbers");
  const std::vector<std::int64_t> ids(6, 0);
  refused(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {2, 3})),
          "1 axis", "got 2");
  refused(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {2})),
          "3 tokens", "got 2");
  refused(rope, Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kInt64, {1, 2, 3})),
          "1 batch rows", "got 2");
}

TEST_F(BadTable, PositionsInsideResults) {
  const TableRope rope(table({3, kPairs}), layout(), TableWidth::kPairs);
  constexpr const char* kRule = "tensors that are written must not share memory with the positions";
  expect_refused([&] { rope.rotate(x(), ids_inside(x(), 23)); }, "rotate", kRule);
  expect_refused([&] { rope.unrotate(x(), ids_inside(x(), 0)); }, "unrotate", kRule);
  expect_refused([&] { rope.adjoint({{x(), y()}}, ids_inside(y(), 11)); }, "adjoint", kRule);
}

TEST_F(BadTable, Tensors) {
  const TableRope rope(table({3, kPairs}), layout(), TableWidth::kPairs);
  TensorView wrong = x();
  wrong.shape[2] = 5;
  expect_refused([&] { rope.rotate(wrong); }, "rotate", "the last size must be head_dim 4");
  wrong = x();
  wrong.strides[0] = 0;
  expect_refused([&] { rope.unrotate(wrong); }, "unrotate", "must not share memory");
  expect_refused([&] { rope.adjoint({x(), x()}); }, "adjoint", "share");
}

// A table of no rows is a table: it serves no token.
TEST_F(BadTable, NoRows) {
  const TableRope rope(table({0, kPairs}), layout(), TableWidth::kPairs);
  refused(rope, "3 tokens", "got 0");
  EXPECT_NO_THROW(
      rope.rotate(TensorView::contiguous(nullptr, DType::kFloat32, {0, kHeads, kHeadDim})));
}

}  // namespace
}  // namespace rotary
