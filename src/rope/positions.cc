// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/positions.h"

#include <string_view>

#include "engine/position_reader.h"
#include "support/message.h"

namespace rotary {
namespace {

template <typename T>
ConstTensorView list_view(std::span<const T> values, DType dtype) noexcept {
  return {values.data(), dtype, 3, {1, 1, static_cast<std::int64_t>(values.size()), 0},
          {0, 0, 1, 0},  {}};
}

/// The list as [size].
ConstTensorView row_view(std::span<const std::int64_t> values) noexcept {
  return {values.data(), DType::kInt64, 1, {static_cast<std::int64_t>(values.size())}, {1}, {}};
}

void check_row(std::string_view function, std::string_view name, const ConstTensorView& row) {
  if (row.rank != 1 || is_floating_point(row.dtype)) {
    internal::reject("[", function, "] ", name, " must be a row of int32 or int64, got ",
                     name_of(row.dtype), " of rank ", row.rank);
  }
  if (row.shape[0] < 0) {
    internal::reject("[", function, "] sizes must not be negative, got ", row.shape[0]);
  }
  if (row.shape[0] > 0 && row.data == nullptr) {
    internal::reject("[", function, "] ", name, " has no memory");
  }
}

void check_boundaries(std::string_view function, const ConstTensorView& boundaries) {
  check_row(function, "boundaries", boundaries);
  const std::int64_t count = boundaries.shape[0];
  if (count == 0) internal::reject("[", function, "] boundaries must begin with 0, got none");
  if (count > 1 && boundaries.strides[0] != 1) {
    internal::reject("[", function, "] boundaries must lie without gaps, got stride ",
                     boundaries.strides[0]);
  }
  if (boundaries.device.type != DeviceType::kCpu) return;
  std::int64_t last = internal::integer_at(boundaries, 0);
  if (last != 0) internal::reject("[", function, "] boundaries must begin with 0, got ", last);
  for (std::int64_t i = 1; i < count; ++i) {
    const std::int64_t next = internal::integer_at(boundaries, i);
    if (next < last) {
      internal::reject("[", function, "] boundaries must not fall, got ", next, " after ", last);
    }
    last = next;
  }
}

/// Throws unless `row` has one entry per sequence.
void check_per_sequence(std::string_view function, std::string_view name,
                        const ConstTensorView& row, const ConstTensorView& boundaries) {
  check_row(function, name, row);
  const std::int64_t sequences = boundaries.shape[0] - 1;
  if (row.shape[0] != sequences) {
    internal::reject("[", function, "] ", name, " must have one entry a sequence (", sequences,
                     "), got ", row.shape[0]);
  }
  if (row.dtype != boundaries.dtype || row.device != boundaries.device ||
      (sequences > 1 && row.strides[0] != 1)) {
    internal::reject("[", function, "] ", name,
                     " must have the type and device of boundaries, without gaps");
  }
}

}  // namespace

Positions Positions::range(std::span<const std::int64_t> first) noexcept {
  Positions positions;
  positions.per_row_ = true;
  positions.first_ = row_view(first);
  return positions;
}

Positions Positions::range(const ConstTensorView& first) {
  check_row("Positions::range", "first", first);
  Positions positions;
  positions.per_row_ = true;
  positions.first_ = first;
  return positions;
}

Positions Positions::at(std::int64_t position) noexcept {
  Positions positions = range(position);
  positions.step_ = 0;
  return positions;
}

Positions Positions::at(std::span<const std::int64_t> position) noexcept {
  Positions positions = range(position);
  positions.step_ = 0;
  return positions;
}

Positions Positions::at(const ConstTensorView& position) {
  check_row("Positions::at", "position", position);
  Positions positions = range(position);
  positions.step_ = 0;
  return positions;
}

Positions Positions::ids(std::span<const std::int32_t> values) noexcept {
  Positions positions;
  positions.kind_ = Kind::kIds;
  positions.view_ = list_view(values, DType::kInt32);
  return positions;
}

Positions Positions::ids(std::span<const std::int64_t> values) noexcept {
  Positions positions;
  positions.kind_ = Kind::kIds;
  positions.view_ = list_view(values, DType::kInt64);
  return positions;
}

Positions Positions::ids(std::span<const float> values) noexcept {
  Positions positions;
  positions.kind_ = Kind::kIds;
  positions.view_ = list_view(values, DType::kFloat32);
  return positions;
}

Positions Positions::ids(std::span<const double> values) noexcept {
  Positions positions;
  positions.kind_ = Kind::kIds;
  positions.view_ = list_view(values, DType::kFloat64);
  return positions;
}

Positions Positions::ids(const ConstTensorView& view) {
  if (view.rank < 1 || view.rank > 3) {
    internal::reject(
        "[Positions::ids] positions must be [tokens], [axes, tokens] or [axes, batch, tokens], "
        "got rank ",
        view.rank);
  }
  if (is_floating_point(view.dtype) && size_of(view.dtype) < size_of(DType::kFloat32)) {
    internal::reject("[Positions::ids] positions must be int32, int64, float32 or float64, got ",
                     name_of(view.dtype));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] < 0) {
      internal::reject("[Positions::ids] sizes must not be negative, got ", view.shape[i]);
    }
  }
  Positions positions;
  positions.kind_ = Kind::kIds;
  positions.view_ = view;
  ConstTensorView& v = positions.view_;
  v.rank = 3;
  if (view.rank == 1) {
    v.shape = {1, 1, view.shape[0], 0};
    v.strides = {0, 0, view.strides[0], 0};
  } else if (view.rank == 2) {
    v.shape = {view.shape[0], 1, view.shape[1], 0};
    v.strides = {view.strides[0], 0, view.strides[1], 0};
  }
  if (v.shape[1] == 1) v.strides[1] = 0;
  return positions;
}

Positions Positions::packed(std::span<const std::int64_t> boundaries,
                            std::span<const std::int64_t> first) {
  return packed(row_view(boundaries), first.empty() ? ConstTensorView{} : row_view(first));
}

Positions Positions::packed(const ConstTensorView& boundaries, const ConstTensorView& first) {
  check_boundaries("Positions::packed", boundaries);
  if (first.rank != 0) check_per_sequence("Positions::packed", "first", first, boundaries);
  Positions positions;
  positions.kind_ = Kind::kPacked;
  positions.boundaries_ = boundaries;
  positions.first_ = first;
  return positions;
}

Positions Positions::packed_at(std::span<const std::int64_t> boundaries,
                               std::span<const std::int64_t> position) {
  return packed_at(row_view(boundaries), row_view(position));
}

Positions Positions::packed_at(const ConstTensorView& boundaries, const ConstTensorView& position) {
  check_boundaries("Positions::packed_at", boundaries);
  check_per_sequence("Positions::packed_at", "position", position, boundaries);
  Positions positions;
  positions.kind_ = Kind::kPacked;
  positions.boundaries_ = boundaries;
  positions.first_ = position;
  positions.step_ = 0;
  return positions;
}

Positions Positions::on_all_axes() const {
  if (axes() != 1) {
    internal::reject("[Positions::on_all_axes] positions must have one axis, got ", axes());
  }
  Positions positions = *this;
  positions.same_on_all_axes_ = true;
  return positions;
}

std::int64_t Positions::tokens() const noexcept {
  if (kind_ == Kind::kIds) return view_.shape[2];
  if (kind_ != Kind::kPacked || boundaries_.device.type != DeviceType::kCpu) return -1;
  return internal::integer_at(boundaries_, boundaries_.shape[0] - 1);
}

bool Positions::real_valued() const noexcept {
  return kind_ == Kind::kIds && is_floating_point(view_.dtype);
}

}  // namespace rotary
