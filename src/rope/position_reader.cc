// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/position_reader.h"

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

Position from_real(double value) noexcept { return {.integer = 0, .real = value, .is_real = true}; }

}  // namespace

Position PositionReader::at(std::int64_t axis, std::int64_t batch, std::int64_t token) noexcept {
  switch (positions_.kind()) {
    case Positions::Kind::kRange: {
      const auto first = positions_.first();
      const std::int64_t start =
          first.empty() ? positions_.start() : first[static_cast<std::size_t>(batch)];
      return from_integer(start + positions_.step() * token);
    }
    case Positions::Kind::kPacked: {
      const auto boundaries = positions_.boundaries();
      if (token < boundaries[sequence_] || token >= boundaries[sequence_ + 1]) {
        const auto next = std::upper_bound(boundaries.begin(), boundaries.end(), token);
        sequence_ = static_cast<std::size_t>(next - boundaries.begin()) - 1;
      }
      const auto first = positions_.first();
      const std::int64_t start = first.empty() ? 0 : first[sequence_];
      return from_integer(start + positions_.step() * (token - boundaries[sequence_]));
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
