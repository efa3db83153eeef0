// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rotary/positions.h"

#include <string>
#include <string_view>

#include "support/message.h"

namespace rotary {
namespace {

template <typename T>
ConstTensorView list_view(std::span<const T> values, DType dtype) noexcept {
  return {values.data(), dtype, 3, {1, 1, static_cast<std::int64_t>(values.size()), 0},
          {0, 0, 1, 0},  {}};
}

void check_boundaries(std::string_view function, std::span<const std::int64_t> boundaries) {
  if (boundaries.empty() || boundaries.front() != 0) {
    internal::reject("[", function, "] boundaries must begin with 0, got ",
                     boundaries.empty() ? "none" : std::to_string(boundaries.front()));
  }
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] < boundaries[i - 1]) {
      internal::reject("[", function, "] boundaries must not fall, got ", boundaries[i], " after ",
                       boundaries[i - 1]);
    }
  }
}

}  // namespace

Positions Positions::range(std::int64_t first) noexcept {
  Positions positions;
  positions.start_ = first;
  return positions;
}

Positions Positions::range(std::span<const std::int64_t> first) noexcept {
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
  if (view.dtype == DType::kFloat16 || view.dtype == DType::kBFloat16) {
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
  check_boundaries("Positions::packed", boundaries);
  if (!first.empty() && first.size() + 1 != boundaries.size()) {
    internal::reject("[Positions::packed] first must have one entry a sequence (",
                     boundaries.size() - 1, "), got ", first.size());
  }
  Positions positions;
  positions.kind_ = Kind::kPacked;
  positions.boundaries_ = boundaries;
  positions.first_ = first;
  return positions;
}

Positions Positions::packed_at(std::span<const std::int64_t> boundaries,
                               std::span<const std::int64_t> position) {
  check_boundaries("Positions::packed_at", boundaries);
  if (position.size() + 1 != boundaries.size()) {
    internal::reject("[Positions::packed_at] position must have one entry a sequence (",
                     boundaries.size() - 1, "), got ", position.size());
  }
  Positions positions = packed(boundaries, position);
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

std::int64_t Positions::axes() const noexcept { return kind_ == Kind::kIds ? view_.shape[0] : 1; }

std::int64_t Positions::batch() const noexcept {
  if (kind_ == Kind::kIds) return view_.shape[1] == 1 ? -1 : view_.shape[1];
  return per_row_ ? static_cast<std::int64_t>(first_.size()) : -1;
}

std::int64_t Positions::tokens() const noexcept {
  if (kind_ == Kind::kIds) return view_.shape[2];
  return kind_ == Kind::kPacked ? boundaries_.back() : -1;
}

bool Positions::real_valued() const noexcept {
  return kind_ == Kind::kIds && is_floating_point(view_.dtype);
}

}  // namespace rotary
