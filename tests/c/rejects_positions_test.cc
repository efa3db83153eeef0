// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Positions that the C API rejects.

#include <cstdint>
#include <string>
#include <vector>

#include "c/rejects.h"
#include "rotary/cuda.h"

namespace rotary::rejects_positions_test {
namespace {

TEST_F(CApiRejects, InvalidPositions) {
  const std::int64_t list[] = {0, 5};
  const auto with = [](rotary_positions p, auto member, auto value) {
    p.*member = value;
    return p;
  };
  const rotary_positions range = rotary_positions_range(0);
  using P = rotary_positions;
  rejects(with(range, &P::kind, 0), "positions.kind must be 1 to 5, got 0");
  rejects(with(range, &P::kind, 6), "positions.kind must be 1 to 5, got 6");
  rejects(with(range, &P::on_all_axes, 2), "positions.on_all_axes must be 0 to 1, got 2");
  rejects(with(range, &P::num_first, 2), "positions.first must not be NULL");
  rejects(with(range, &P::num_first, -2),
          "the length of positions.first must not be negative, got -2");
  rejects(with(range, &P::num_boundaries, 1), "positions.boundaries does not belong to kind 1");
  const rotary_positions rows = rotary_positions_range_rows(list, 2);
  rejects(with(rows, &P::start, 7), "positions.start must be 0 where first is given");
  rejects(with(rows, &P::boundaries, list), "positions.boundaries does not belong to kind 1");
  const rotary_tensor tensor = c_tensor(q());
  rejects(with(rotary_positions_at(1), &P::ids, &tensor),
          "positions.ids does not belong to kind 2");
  const rotary_positions no_ids = rotary_positions_ids(nullptr);
  rejects(no_ids, "positions.ids must not be NULL");
  rejects(with(no_ids, &P::start, 1), "positions.start does not belong to kind 3");
  rejects(with(no_ids, &P::first, list), "positions.first does not belong to kind 3");
  const rotary_positions packed = rotary_positions_packed(list, 1, nullptr);
  rejects(with(packed, &P::start, 1), "positions.start does not belong to kind 4");
  rejects(with(packed, &P::boundaries, nullptr), "positions.boundaries must not be NULL");
  rejects(rotary_positions_packed(nullptr, -5, nullptr),
          "the length of positions.boundaries must not be negative, got -4");

  std::vector<std::int32_t> numbers{0, 5};
  const rotary_tensor row = c_row(numbers);
  rejects(with(rows, &P::first_view, &row), "positions.first must not be given beside first_view");
  rejects(with(packed, &P::boundaries_view, &row),
          "positions.boundaries must not be given beside boundaries_view");
  const rotary_positions range_view = rotary_positions_range_view(&row);
  rejects(with(range_view, &P::num_first, 2),
          "positions.first must not be given beside first_view");
  rejects(with(range_view, &P::start, 7), "positions.start must be 0 where first is given");
  rejects(with(range_view, &P::boundaries_view, &row),
          "positions.boundaries_view does not belong to kind 1");
  rejects(with(no_ids, &P::first_view, &row), "positions.first_view does not belong to kind 3");
  rejects(rotary_positions_range_view(nullptr), "positions.first must not be NULL");
  rejects(rotary_positions_at_view(nullptr), "positions.first must not be NULL");
  rotary_tensor no_type = row;
  no_type.dtype = 0;
  rejects(with(range, &P::first_view, &no_type),
          "positions.first_view.dtype must be 1 to 9, got 0");
  rejects(rotary_positions_packed_view(&no_type, nullptr),
          "positions.boundaries_view.dtype must be 1 to 9, got 0");
  no_type.struct_size = 3;
  rejects(with(range, &P::first_view, &no_type),
          "positions.first_view.struct_size must be the size of the struct (104 bytes here), "
          "got 3");
}

TEST_F(CApiRejects, PositionViewsAsCpp) {
  const auto same = [&](const rotary_positions& c_positions, auto make) {
    expect_same_error(rotate(c_positions), [&] { cpp().rotate(q(), make()); });
  };
  const std::vector<std::int32_t> numbers{0, 3, 2};
  std::vector<std::int32_t> c_numbers = numbers;
  const auto view = ConstTensorView::contiguous(numbers.data(), DType::kInt32, {3});
  const rotary_tensor row = c_row(c_numbers);
  // Three rows for two, decreasing boundaries, missing positions.
  same(rotary_positions_range_view(&row), [&] { return Positions::range(view); });
  same(rotary_positions_at_view(&row), [&] { return Positions::at(view); });
  same(rotary_positions_packed_view(&row, nullptr), [&] { return Positions::packed(view); });
  const std::vector<std::int64_t> whole{0, 5};
  std::vector<std::int64_t> c_whole = whole;
  const auto whole_view = ConstTensorView::contiguous(whole.data(), DType::kInt64, {2});
  const rotary_tensor whole_row = c_row(c_whole);
  same(rotary_positions_packed_at_view(&whole_row, nullptr),
       [&] { return Positions::packed_at(whole, {}); });
  same(rotary_positions_packed_view(nullptr, nullptr),
       [&] { return Positions::packed(std::vector<std::int64_t>()); });
  // Of another type than the boundaries.
  const auto one = ConstTensorView::contiguous(numbers.data(), DType::kInt32, {1});
  rotary_tensor one_row = row;
  one_row.shape[0] = 1;
  same(rotary_positions_packed_view(&whole_row, &one_row),
       [&] { return Positions::packed(whole_view, one); });

  const auto changed = [&](auto member, auto value, auto change) {
    rotary_tensor tensor = row;
    tensor.*member = value;
    ConstTensorView other = view;
    change(other);
    same(rotary_positions_range_view(&tensor), [&] { return Positions::range(other); });
  };
  changed(&rotary_tensor::dtype, ROTARY_DTYPE_FLOAT32, [](auto& v) { v.dtype = DType::kFloat32; });
  changed(&rotary_tensor::rank, 2, [](auto& v) { v.rank = 2; });
  changed(&rotary_tensor::rank, 0, [](auto& v) { v.rank = 0; });
  changed(&rotary_tensor::rank, 99, [](auto& v) { v.rank = 99; });
  changed(&rotary_tensor::data, nullptr, [](auto& v) { v.data = nullptr; });
  // On another device than the tensor.
  rotary_tensor there = row;
  there.shape[0] = 2;
  there.device_type = ROTARY_DEVICE_CUDA;
  ConstTensorView cpp_there = view;
  cpp_there.shape[0] = 2;
  cpp_there.device.type = DeviceType::kCuda;
  same(rotary_positions_range_view(&there), [&] { return Positions::range(cpp_there); });
}

TEST_F(CApiRejects, PositionsAsCpp) {
  const auto same = [&](const rotary_positions& c_positions, auto make) {
    expect_same_error(rotate(c_positions), [&] { cpp().rotate(q(), make()); });
  };
  const std::vector<std::int64_t> three{1, 2, 3};
  const std::vector<std::int64_t> falls{0, 3, 2};
  const std::vector<std::int64_t> whole{0, 5};
  same(rotary_positions_range_rows(three.data(), 3), [&] { return Positions::range(three); });
  same(rotary_positions_at_rows(three.data(), 3), [&] { return Positions::at(three); });
  same(rotary_positions_packed(three.data(), 2, nullptr), [&] { return Positions::packed(three); });
  same(rotary_positions_packed(falls.data(), 2, nullptr), [&] { return Positions::packed(falls); });
  same(rotary_positions_packed_at(whole.data(), 1, nullptr),
       [&] { return Positions::packed_at(whole, {}); });
  rotary_positions packed = rotary_positions_packed(whole.data(), 1, three.data());
  packed.num_first = 3;
  same(packed, [&] { return Positions::packed(whole, three); });

  std::vector<double> ids{1, 2, kNan, 4, 5};
  const auto view = ConstTensorView::contiguous(ids.data(), DType::kFloat64, {5});
  const std::int64_t shape[] = {5, 1, 1, 1};
  rotary_tensor tensor = rotary_tensor_contiguous(ids.data(), ROTARY_DTYPE_FLOAT64, 1, shape);
  same(rotary_positions_ids(&tensor), [&] { return Positions::ids(view); });
  tensor.dtype = 0;
  rejects(rotary_positions_ids(&tensor), "positions.ids.dtype must be 1 to 9, got 0");
  tensor.dtype = ROTARY_DTYPE_BFLOAT16;
  same(rotary_positions_ids(&tensor), [&] {
    ConstTensorView other = view;
    other.dtype = DType::kBFloat16;
    return Positions::ids(other);
  });
  tensor = rotary_tensor_contiguous(ids.data(), ROTARY_DTYPE_FLOAT64, 4, shape);
  same(rotary_positions_ids(&tensor), [&] {
    return Positions::ids(ConstTensorView::contiguous(ids.data(), DType::kFloat64, {5, 1, 1, 1}));
  });
  // Two axes for a rope of one.
  const std::vector<double> two(10);
  std::vector<double> c_two = two;
  const std::int64_t two_by_five[] = {2, 5};
  tensor = rotary_tensor_contiguous(c_two.data(), ROTARY_DTYPE_FLOAT64, 2, two_by_five);
  const auto two_axes = ConstTensorView::contiguous(two.data(), DType::kFloat64, {2, 5});
  same(rotary_positions_ids(&tensor), [&] { return Positions::ids(two_axes); });
  rotary_positions all = rotary_positions_ids(&tensor);
  all.on_all_axes = 1;
  same(all, [&] { return Positions::ids(two_axes).on_all_axes(); });
}

}  // namespace
}  // namespace rotary::rejects_positions_test
