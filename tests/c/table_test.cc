// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rotation by the caller's cos/sin tables gives the bits of C++.

#include "rotary/table.h"

#include <cmath>
#include <vector>

#include "c/c_testing.h"

namespace rotary::table_test {
namespace {

/// [rows, width], and the views of both languages.
class Table {
 public:
  Table(std::int64_t rows, std::int64_t width) : shape_{rows, width} {
    for (std::int64_t i = 0; i < rows * width; ++i) {
      cos_.push_back(std::cos(static_cast<float>(i)));
      sin_.push_back(std::sin(static_cast<float>(i)));
    }
  }
  CosSinTable cpp() const { return {view(cos_), view(sin_)}; }
  rotary_tensor c_cos() { return tensor(cos_); }
  rotary_tensor c_sin() { return tensor(sin_); }

 private:
  ConstTensorView view(const std::vector<float>& values) const {
    return ConstTensorView::contiguous(values.data(), DType::kFloat32, {shape_[0], shape_[1]});
  }
  rotary_tensor tensor(std::vector<float>& values) {
    return rotary_tensor_contiguous(values.data(), ROTARY_DTYPE_FLOAT32, 2, shape_);
  }

  std::int64_t shape_[2];
  std::vector<float> cos_;
  std::vector<float> sin_;
};

CTable c_table(Table& table, rotary_table_width width, rotary_pairing pairing,
               const rotary_threads* threads = nullptr) {
  const rotary_tensor cosines = table.c_cos();
  const rotary_tensor sines = table.c_sin();
  const rotary_head_layout layout = rotary_head_layout_init(8, pairing);
  rotary_table* made = nullptr;
  ROTARY_EXPECT_OK(rotary_table_create(&cosines, &sines, width, &layout, threads, &made));
  return CTable(made);
}

struct Operation {
  const char* name;
  decltype(&rotary_table_rotate) c;
  void (TableRope::*by_token)(const Operands&, Stream) const;
  void (TableRope::*by_position)(const Operands&, const Positions&, Stream) const;
};
const Operation kOperations[] = {
    {"rotate", rotary_table_rotate, &TableRope::rotate, &TableRope::rotate},
    {"unrotate", rotary_table_unrotate, &TableRope::unrotate, &TableRope::unrotate},
    {"adjoint", rotary_table_adjoint, &TableRope::adjoint, &TableRope::adjoint}};

TEST(CTableTest, ByTokenAsCpp) {
  Table table(QueryAndKey::kTokens, 8);
  const CTable c = c_table(table, ROTARY_TABLE_TWICE_PAIRS, ROTARY_PAIRING_INTERLEAVED);
  const TableRope cpp(table.cpp(), {.head_dim = 8, .pairing = Pairing::kInterleaved},
                      TableWidth::kTwicePairs);
  for (const auto& [name, operation, by_token, by_position] : kOperations) {
    SCOPED_TRACE(name);
    QueryAndKey expected;
    (cpp.*by_token)({expected.q(), expected.k()}, {});
    QueryAndKey got;
    QueryAndKey out(DType::kFloat32, 3);
    ROTARY_EXPECT_OK(operation(c.get(), got.tensors().data(), out.tensors().data(), 2, nullptr));
    EXPECT_TRUE(out == expected);
    ROTARY_EXPECT_OK(operation(c.get(), got.tensors().data(), nullptr, 2, nullptr));
    EXPECT_TRUE(got == expected);
  }
}

TEST(CTableTest, ByPositionAsCpp) {
  Table table(100, 3);
  const rotary_threads threads = rotary_threads_init(2);
  const CTable c = c_table(table, ROTARY_TABLE_PAIRS, ROTARY_PAIRING_HALF, &threads);
  const TableRope cpp(table.cpp(), {.head_dim = 8, .pairing = Pairing::kHalf}, TableWidth::kPairs);
  const std::vector<std::int64_t> rows{90, 3};
  const rotary_positions positions = rotary_positions_range_rows(rows.data(), 2);
  for (const auto& [name, operation, by_token, by_position] : kOperations) {
    SCOPED_TRACE(name);
    QueryAndKey expected;
    (cpp.*by_position)({expected.q(), expected.k()}, Positions::range(rows), {});
    QueryAndKey got;
    ROTARY_EXPECT_OK(operation(c.get(), got.tensors().data(), nullptr, 2, &positions));
    EXPECT_TRUE(got == expected);
  }
}

TEST(CTableTest, AStreamChangesNothingOnTheCpu) {
  Table table(QueryAndKey::kTokens, 3);
  CTable c = c_table(table, ROTARY_TABLE_PAIRS, ROTARY_PAIRING_HALF);
  QueryAndKey expected;
  ROTARY_EXPECT_OK(rotary_table_rotate(c.get(), expected.tensors().data(), nullptr, 2, nullptr));
  int no_stream = 0;
  rotary_table* made = nullptr;
  ROTARY_EXPECT_OK(rotary_table_with_stream(c.get(), &no_stream, 1, &made));
  c.reset(made);  // frees the first
  QueryAndKey got;
  ROTARY_EXPECT_OK(rotary_table_rotate(c.get(), got.tensors().data(), nullptr, 2, nullptr));
  EXPECT_TRUE(got == expected);

  const std::string function = "[rotary_table_with_stream] ";
  expect_failed(rotary_table_with_stream(nullptr, nullptr, 0, &made), ROTARY_INVALID_ARGUMENT,
                function + "table must not be NULL");
  EXPECT_EQ(made, nullptr);
  expect_failed(rotary_table_with_stream(c.get(), nullptr, 2, &made), ROTARY_INVALID_ARGUMENT,
                function + "overlap must be 0 to 1, got 2");
  expect_failed(rotary_table_with_stream(c.get(), nullptr, 0, nullptr), ROTARY_INVALID_ARGUMENT,
                function + "result must not be NULL");
}

TEST(CTableTest, RejectsInvalidArguments) {
  Table table(4, 3);
  const rotary_tensor cosines = table.c_cos();
  const rotary_tensor sines = table.c_sin();
  const rotary_head_layout layout = rotary_head_layout_init(8, ROTARY_PAIRING_HALF);
  const HeadLayout cpp_layout{.head_dim = 8, .pairing = Pairing::kHalf};
  rotary_table* made = reinterpret_cast<rotary_table*>(&made);  // must become NULL
  const auto create = [&](const rotary_tensor* a, const rotary_tensor* b, rotary_table_width width,
                          const rotary_head_layout* head) {
    return rotary_table_create(a, b, width, head, nullptr, &made);
  };
  const std::string function = "[rotary_table_create] ";
  const auto rejects = [&](rotary_status status, const std::string& text) {
    expect_failed(status, ROTARY_INVALID_ARGUMENT, function + text);
    EXPECT_EQ(made, nullptr);
  };
  rejects(create(nullptr, &sines, ROTARY_TABLE_PAIRS, &layout), "cosines must not be NULL");
  rejects(create(&cosines, nullptr, ROTARY_TABLE_PAIRS, &layout), "sines must not be NULL");
  rejects(create(&cosines, &sines, ROTARY_TABLE_PAIRS, nullptr), "layout must not be NULL");
  rejects(create(&cosines, &sines, 0, &layout), "width must be 1 to 2, got 0");
  rejects(create(&cosines, &sines, 3, &layout), "width must be 1 to 2, got 3");
  EXPECT_EQ(rotary_table_create(&cosines, &sines, ROTARY_TABLE_PAIRS, &layout, nullptr, nullptr),
            ROTARY_INVALID_ARGUMENT);

  // With messages of C++: odd, no pairing, too wide.
  expect_same_error(create(&cosines, &sines, ROTARY_TABLE_TWICE_PAIRS, &layout), [&] {
    const TableRope rope(table.cpp(), cpp_layout, TableWidth::kTwicePairs);
  });
  const rotary_head_layout no_pairing = rotary_head_layout_init(8, 0);
  expect_same_error(create(&cosines, &sines, ROTARY_TABLE_PAIRS, &no_pairing), [&] {
    const TableRope rope(table.cpp(), {.head_dim = 8}, TableWidth::kPairs);
  });
  const rotary_head_layout small = rotary_head_layout_init(4, ROTARY_PAIRING_HALF);
  expect_same_error(create(&cosines, &sines, ROTARY_TABLE_PAIRS, &small), [&] {
    const TableRope rope(table.cpp(), {.head_dim = 4, .pairing = Pairing::kHalf},
                         TableWidth::kPairs);
  });
  rotary_tensor other = sines;
  other.shape[0] = 3;
  expect_same_error(create(&cosines, &other, ROTARY_TABLE_PAIRS, &layout), [&] {
    CosSinTable shorter = table.cpp();
    shorter.sin.shape[0] = 3;
    const TableRope rope(shorter, cpp_layout, TableWidth::kPairs);
  });

  // Four rows, five tokens; a row that is not there.
  const CTable c = c_table(table, ROTARY_TABLE_PAIRS, ROTARY_PAIRING_HALF);
  const TableRope cpp(table.cpp(), cpp_layout, TableWidth::kPairs);
  QueryAndKey memory;
  const rotary_tensor q = c_tensor(memory.q());
  expect_same_error(rotary_table_rotate(c.get(), &q, nullptr, 1, nullptr),
                    [&] { cpp.rotate(memory.q()); });
  const rotary_positions from_2 = rotary_positions_range(2);
  expect_same_error(rotary_table_adjoint(c.get(), &q, nullptr, 1, &from_2),
                    [&] { cpp.adjoint(memory.q(), Positions::range(2)); });
  for (const Operation& operation : kOperations) {
    expect_failed(operation.c(nullptr, &q, nullptr, 1, nullptr), ROTARY_INVALID_ARGUMENT,
                  std::string("[rotary_table_") + operation.name + "] table must not be NULL");
    expect_failed(operation.c(c.get(), nullptr, nullptr, 1, nullptr), ROTARY_INVALID_ARGUMENT,
                  std::string("[rotary_table_") + operation.name + "] in must not be NULL");
    expect_failed(operation.c(c.get(), &q, nullptr, 17, nullptr), ROTARY_INVALID_ARGUMENT,
                  std::string("[rotary_table_") + operation.name + "] count must be 0 to 16");
  }
  EXPECT_TRUE(memory == QueryAndKey());
}

}  // namespace
}  // namespace rotary::table_test
