// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "engine/position_reader.h"

#include <algorithm>
#include <cstring>

namespace rotary::internal {
namespace {

template <typename Value>
Value load(const ConstTensorView& view, std::int64_t element) noexcept {
  Value value;
  std::memcpy(
      &value,
      static_cast<const char*>(view.data) + element * static_cast<std::int64_t>(sizeof(Value)),
      sizeof(Value));
  return value;
}

Position from_integer(std::int64_t value) noexcept {
  return {.integer = value, .real = static_cast<double>(value), .is_real = false};
}

/// The sequence that a token of packed sequences belongs to. Always one that there is, even if
/// another thread changes the boundaries after they were checked.
std::int64_t sequence_of(const ConstTensorView& boundaries, std::int64_t token) noexcept {
  std::int64_t low = 0;
  std::int64_t high = boundaries.shape[0];  // upper bound of the first boundary beyond the token
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (integer_at(boundaries, middle) > token) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return std::clamp<std::int64_t>(low - 1, 0, std::max<std::int64_t>(boundaries.shape[0] - 2, 0));
}

Position from_real(double value) noexcept { return {.integer = 0, .real = value, .is_real = true}; }

}  // namespace

std::int64_t integer_at(const ConstTensorView& row, std::int64_t i) noexcept {
  const std::int64_t element = i * row.strides[0];
  return row.dtype == DType::kInt32 ? load<std::int32_t>(row, element)
                                    : load<std::int64_t>(row, element);
}

Position PositionReader::at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept {
  switch (positions_.kind()) {
    case Positions::Kind::kRange: {
      const ConstTensorView& first = positions_.first();
      const std::int64_t start =
          first.data == nullptr ? positions_.start() : integer_at(first, batch);
      return from_integer(start + positions_.step() * token);
    }
    case Positions::Kind::kPacked: {
      const ConstTensorView& boundaries = positions_.boundaries();
      if (token < integer_at(boundaries, sequence_) ||
          token >= integer_at(boundaries, sequence_ + 1)) {
        sequence_ = sequence_of(boundaries, token);
      }
      const ConstTensorView& first = positions_.first();
      const std::int64_t start = first.data == nullptr ? 0 : integer_at(first, sequence_);
      return from_integer(start + positions_.step() * (token - integer_at(boundaries, sequence_)));
    }
    case Positions::Kind::kIds:
      break;
  }
  const ConstTensorView& view = positions_.view();
  const std::int64_t a = positions_.same_on_all_axes() ? 0 : axis;
  const std::int64_t element =
      a * view.strides[0] + batch * view.strides[1] + token * view.strides[2];
  switch (view.dtype) {
    case DType::kInt32:
      return from_integer(load<std::int32_t>(view, element));
    case DType::kInt64:
      return from_integer(load<std::int64_t>(view, element));
    case DType::kFloat32:
      return from_real(static_cast<double>(load<float>(view, element)));
    default:
      return from_real(load<double>(view, element));
  }
}

}  // namespace rotary::internal
