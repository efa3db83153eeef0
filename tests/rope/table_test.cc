// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation by the caller's cos and sin: every shape, type and stride of tables against the product
// in long double, and against Rope.

#include "rotary/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/elements.h"
#include "reference/rotation.h"
#include "rope/expect_rotation.h"
#include "rope/placed_tensor.h"
#include "rope/rejects.h"
#include "rotary/rope.h"

namespace rotary::table_test {
namespace {

using reference::Elements;
using reference::Map;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr Sizes kSizes{.batch = 2, .tokens = 6, .heads = 3, .head_dim = 40};
constexpr std::int64_t kPairs = 17;
constexpr std::int64_t kOffset = 3;
constexpr std::int64_t kRows = 50;

HeadLayout layout(Pairing pairing, Pairing output) {
  return {.head_dim = kSizes.head_dim,
          .rotary_offset = kOffset,
          .pairing = pairing,
          .output_pairing = output};
}

/// Memory layout of a table.
enum class TableLayout : std::uint8_t {
  kContiguous,
  kSideBySide,  // [rows, 2, width]: cos and sin of a row side by side, as vLLM keeps them
  kStrided,     // every third element, rows from the last to the first
};

/// A table with its memory: numbers whose squares add up to 1.21, as a scale of 1.1 makes them.
class TestTable {
 public:
  /// batch 0: rank 2.
  TestTable(DType dtype, std::int64_t batch, std::int64_t rows, TableWidth width, Pairing pairing,
            TableLayout table_layout)
      : rows_(rows),
        columns_(width == TableWidth::kPairs ? kPairs : 2 * kPairs),
        pairing_(pairing),
        width_(width),
        memory_(dtype,
                static_cast<std::size_t>(6 * std::max<std::int64_t>(batch, 1) * rows * columns_)) {
    const std::int64_t size = rows * columns_;
    Dims strides = {size, columns_, 1, 0};
    std::int64_t cos_at = 0;
    std::int64_t sin_at = std::max<std::int64_t>(batch, 1) * size;
    if (table_layout == TableLayout::kSideBySide) {
      strides = {2 * size, 2 * columns_, 1, 0};
      sin_at = columns_;
    } else if (table_layout == TableLayout::kStrided) {
      strides = {3 * size, -3 * columns_, 3, 0};
      cos_at = 3 * (rows - 1) * columns_;
      sin_at = cos_at + 3 * std::max<std::int64_t>(batch, 1) * size;
    }
    fill(std::max<std::int64_t>(batch, 1), cos_at, sin_at, strides);
    table_.cos = view(cos_at, batch, strides);
    table_.sin = view(sin_at, batch, strides);
  }

  const CosSinTable& table() const { return table_; }

  /// As stored.
  std::complex<long double> at(std::int64_t b, std::int64_t row, std::int64_t pair) const {
    return z_[static_cast<std::size_t>((b * rows_ + row) * kPairs + pair)];
  }

 private:
  /// The column that is read for pair i: in full-width tables the first of two.
  std::int64_t column(std::int64_t i) const {
    return width_ == TableWidth::kTwicePairs && pairing_ == Pairing::kInterleaved ? 2 * i : i;
  }
  void fill(std::int64_t batch, std::int64_t cos_at, std::int64_t sin_at, const Dims& strides) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_.set(i, kNan);  // where none may look
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        for (std::int64_t i = 0; i < kPairs; ++i) {
          const double angle = 0.37 * static_cast<double>((b * rows_ + row) * (i + 1));
          const auto index = [&](std::int64_t first) {
            return static_cast<std::size_t>(first + b * strides[0] + row * strides[1] +
                                            column(i) * strides[2]);
          };
          memory_.set(index(cos_at), 1.1 * std::cos(angle));
          memory_.set(index(sin_at), 1.1 * std::sin(angle));
          z_.emplace_back(static_cast<long double>(memory_.get(index(cos_at))),
                          static_cast<long double>(memory_.get(index(sin_at))));
        }
      }
    }
  }
  ConstTensorView view(std::int64_t first, std::int64_t batch, const Dims& strides) {
    void* data = memory_.data(static_cast<std::size_t>(first));
    if (batch == 0) {
      return {data, memory_.dtype(), 2, {rows_, columns_}, {strides[1], strides[2]}, {}};
    }
    return {data, memory_.dtype(), 3, {batch, rows_, columns_}, strides, {}};
  }

  std::int64_t rows_;
  std::int64_t columns_;
  Pairing pairing_;
  TableWidth width_;
  Elements memory_;
  std::vector<std::complex<long double>> z_;
  CosSinTable table_;
};

/// Units as those of Rope: 0.5 sqrt(2) for a table that is wider than the arithmetic and its two
/// products and sum, 1.5, are below 3. The inverse rounds |z|^2 (1), divides (0.5) and multiplies
/// (0.5) besides.
double units(Map map) { return map == Map::kUnrotate ? 5.0 : 3.0; }

std::complex<long double> as(Map map, const std::complex<long double>& z) {
  if (map == Map::kRotate) return z;
  return map == Map::kAdjoint ? std::conj(z) : 1.0L / z;
}

void apply(const TableRope& rope, Map map, const Operands& x, const Positions* positions) {
  if (positions == nullptr) {
    if (map == Map::kRotate) return rope.rotate(x);
    return map == Map::kUnrotate ? rope.unrotate(x) : rope.adjoint(x);
  }
  if (map == Map::kRotate) return rope.rotate(x, *positions);
  return map == Map::kUnrotate ? rope.unrotate(x, *positions) : rope.adjoint(x, *positions);
}

/// Rows of tokens, and the positions that select them; none: row t for token t.
struct Choice {
  std::string name;
  std::int64_t table_batch;
  std::int64_t table_rows;
  const Positions* positions;
  std::function<std::int64_t(std::int64_t b, std::int64_t t)> row;
};

void expect_products(const Choice& choice, DType dtype, DType table_type, TableWidth width,
                     TableLayout table_layout) {
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
    for (const Pairing output : {Pairing::kInterleaved, Pairing::kHalf}) {
      const TestTable table(table_type, choice.table_batch, choice.table_rows, width, pairing,
                            table_layout);
      const TableRope rope(table.table(), layout(pairing, output), width);
      EXPECT_EQ(rope.pairs(), kPairs);
      for (const Map map : {Map::kRotate, Map::kUnrotate, Map::kAdjoint}) {
        const Pairing read = map == Map::kRotate ? pairing : output;
        const Pairing write = map == Map::kRotate ? output : pairing;
        const PlacedTensor x(Layout::kPackedQkv, dtype, kSizes, 1);
        const PlacedTensor out(Layout::kHeadsFirst, dtype, kSizes, 2);
        const Elements before = x.snapshot();
        const auto expected = reference::multiply(
            rope.layout(), kPairs, read, write, x.values(), kSizes.heads,
            [&](std::int64_t token, std::int64_t pair) {
              const std::int64_t b = token / kSizes.tokens;
              return as(map, table.at(choice.table_batch > 1 ? b : 0,
                                      choice.row(b, token % kSizes.tokens), pair));
            });
        const WrittenSlice slice{kOffset, kPairs, write};
        apply(rope, map, Operand(x.view(), out.view()), choice.positions);
        ASSERT_TRUE(x.memory() == before);
        ASSERT_TRUE(holds_rotation(out, slice, expected, units(map)));
        apply(rope, map, x.view(), choice.positions);
        ASSERT_EQ(x.bits(), out.bits());
        ASSERT_TRUE(kept_the_rest(x, slice, before, false));
      }
    }
  }
}

TEST(TableRope, MatchesTheProducts) {
  const std::vector<std::int32_t> ids = {49, 0, 7, 7, 1, 30};
  const std::vector<std::int64_t> first = {44, 3};
  const std::vector<std::int64_t> boundaries = {0, 2, 6};
  const std::vector<std::int64_t> starts = {48, 10};
  const Positions at_ids = Positions::ids(ids);
  const Positions range = Positions::range(44);
  const Positions rows = Positions::range(first);
  const Positions packed = Positions::packed(boundaries, starts);
  const Positions one = Positions::at(49);
  const auto at_token = [](std::int64_t, std::int64_t t) { return t; };
  const auto at_first = [&first](std::int64_t b, std::int64_t t) {
    return first[static_cast<std::size_t>(b)] + t;
  };
  const std::vector<Choice> choices = {
      {"row a token", 0, kSizes.tokens, nullptr, at_token},
      {"row a token, one for all", 1, kSizes.tokens, nullptr, at_token},
      {"row a token and batch row", 2, kSizes.tokens, nullptr, at_token},
      {"ids", 0, kRows, &at_ids,
       [&ids](auto, std::int64_t t) { return ids[static_cast<std::size_t>(t)]; }},
      {"range", 0, kRows, &range, [](auto, std::int64_t t) { return 44 + t; }},
      {"rows", 0, kRows, &rows, at_first},
      {"rows, each its table", 2, kRows, &rows, at_first},
      {"packed", 1, kRows, &packed, [](auto, std::int64_t t) { return t < 2 ? 48 + t : 8 + t; }},
      {"at", 0, kRows, &one, [](auto, auto) { return std::int64_t{49}; }},
  };
  // Every choice with every type of tensor, cycling through the other lists.
  std::size_t count = 0;
  for (const Choice& choice : choices) {
    for (const DType dtype : kTypes) {
      for (const DType table_type : {DType::kFloat32, DType::kFloat64, dtype}) {
        for (const TableWidth width : {TableWidth::kPairs, TableWidth::kTwicePairs}) {
          const auto table_layout = static_cast<TableLayout>(count++ % 3);
          SCOPED_TRACE(choice.name + ", " + std::string(name_of(dtype)) + ", table of " +
                       std::string(name_of(table_type)) +
                       (width == TableWidth::kPairs ? "" : ", twice"));
          expect_products(choice, dtype, table_type, width, table_layout);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_EQ(count, 9u * 4 * 3 * 2);
}

// With cos and sin of Rope, taken from unit vectors, it equals Rope bit for bit.
TEST(TableRope, EqualsRopeWithItsTables) {
  const Frequencies f = make_frequencies({.rotary_dim = 2 * kPairs,
                                          .theta = 1e4,
                                          .scaling = Yarn{.factor = 4, .original_context = 64}});
  for (const DType dtype : kTypes) {
    const DType table_type = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    Elements unit(table_type, kRows * 2 * kPairs);
    for (std::size_t i = 0; i < unit.size(); i += 2) unit.set(i, 1.0);
    Rope(f, {.head_dim = 2 * kPairs, .pairing = Pairing::kInterleaved})
        .rotate(TensorView::contiguous(unit.data(), table_type, {kRows, 1, 2 * kPairs}),
                Positions::range());
    const auto every_second = [&unit, table_type](std::size_t first) {
      return ConstTensorView{unit.data(first), table_type, 2, {kRows, kPairs}, {2 * kPairs, 2}, {}};
    };
    for (const Pairing output : {Pairing::kInterleaved, Pairing::kHalf}) {
      const Rope rope(f, layout(Pairing::kHalf, output));
      const TableRope table({every_second(0), every_second(1)}, rope.layout(), TableWidth::kPairs);
      const PlacedTensor x(Layout::kContiguous, dtype, kSizes, 1);
      const PlacedTensor y(Layout::kContiguous, dtype, kSizes, 1);
      rope.rotate(x.view(), Positions::range(40));
      table.rotate(y.view(), Positions::range(40));
      EXPECT_EQ(x.bits(), y.bits()) << name_of(dtype);
      rope.adjoint(x.view(), Positions::range(7));
      table.adjoint(y.view(), Positions::range(7));
      EXPECT_EQ(x.bits(), y.bits()) << name_of(dtype);
    }
  }
}

// NaN in the table gives NaN, for any payload.
TEST(TableRope, NanStaysNan) {
  for (const DType dtype : kTypes) {
    for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalf}) {
      for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
        const std::vector<float> cos(kPairs, std::bit_cast<float>(bits));
        const std::vector<float> sin(kPairs, 0.5f);
        const auto row = [](const std::vector<float>& x) {
          return ConstTensorView{x.data(), DType::kFloat32, 2, {6, kPairs}, {0, 1}, {}};
        };
        const TableRope rope({row(cos), row(sin)}, layout(pairing, pairing), TableWidth::kPairs);
        const PlacedTensor x(Layout::kContiguous, dtype, kSizes, 1);
        rope.rotate(x.view());
        const auto values = x.values();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto dim = static_cast<std::int64_t>(i) % kSizes.head_dim;
          const bool inside = dim >= kOffset && dim < kOffset + 2 * kPairs;
          ASSERT_EQ(std::isnan(values[i]), inside)
              << name_of(dtype) << ' ' << name_of(pairing) << ' ' << std::hex << bits << ' ' << i;
        }
      }
    }
  }
}

// ONNX repeats a row for all tokens or a table for all rows by strides of 0.
TEST(TableRope, RepeatedRows) {
  std::vector<float> cos(kPairs, 0.0f);
  std::vector<float> sin(kPairs, 1.0f);
  const auto repeated = [](const std::vector<float>& row) {
    return ConstTensorView{row.data(), DType::kFloat32, 3, {2, 6, kPairs}, {0, 0, 1}, {}};
  };
  const TableRope rope({repeated(cos), repeated(sin)}, layout(Pairing::kHalf, Pairing::kHalf),
                       TableWidth::kPairs);
  const PlacedTensor x(Layout::kContiguous, DType::kFloat32, kSizes, 1);
  const auto before = x.values();
  rope.rotate(x.view());  // a quarter turn: (x, y) -> (-y, x)
  const auto after = x.values();
  for (std::size_t i = kOffset; i < kOffset + kPairs; ++i) {
    EXPECT_EQ(after[i], -before[i + kPairs]);
    EXPECT_EQ(after[i + kPairs], before[i]);
  }
}

}  // namespace
}  // namespace rotary::table_test
