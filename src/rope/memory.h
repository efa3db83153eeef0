// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Which memory a view touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "rotary/tensor.h"

namespace rotary::internal {

/// True for what nearly every tensor is: there are elements, each dimension steps over all that the
/// later ones reach, and none is near the limits of memory. It then fits into memory and its
/// elements are distinct. A decoding step spends its time on questions like these: one pass.
template <typename Void>
bool is_ordinary(const BasicTensorView<Void>& view) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  std::int64_t reach = 1;
  for (auto i = static_cast<std::size_t>(view.rank); i-- > 0;) {
    const std::int64_t size = view.shape[i];
    if (size == 1) continue;
    const std::int64_t stride = view.strides[i];
    if (size < 1 || size > kMost || stride < reach || stride > kMost) return false;
    reach = stride * size;
  }
  return true;
}

/// False when sizes or strides are so large that no memory can hold the view.
bool fits_memory(const ConstTensorView& view) noexcept;

/// True when no two elements share an address: sorted by stride, each dimension steps over all that
/// the finer ones reach. Exotic views that interleave without meeting are refused as well.
bool elements_are_distinct(const ConstTensorView& view) noexcept;

/// The same elements at the same addresses in the same order; shapes are equal.
bool is_same_memory(const ConstTensorView& a, const ConstTensorView& b) noexcept;

/// Bytes from the first to past the last that a view touches. Addresses may wrap: they are numbers
/// here.
struct Extent {
  std::uint64_t first;
  std::uint64_t size;
};

/// Counting only dimensions whose steps are shorter than `period` bytes.
template <typename Void>
Extent extent(const BasicTensorView<Void>& view, std::int64_t period = INT64_MAX) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] <= 1) continue;  // whatever its stride, it is never taken
    const std::int64_t step = view.strides[i] * size;
    if (std::abs(step) >= period) continue;
    (step < 0 ? low : high) += (view.shape[i] - 1) * step;
  }
  return {reinterpret_cast<std::uintptr_t>(view.data) + static_cast<std::uint64_t>(low),
          static_cast<std::uint64_t>(high - low + size)};
}

/// The same as may_overlap() for views whose extents meet.
bool may_interleave(const ConstTensorView& a, const ConstTensorView& b) noexcept;

/// False when it can be shown that the views have no byte in common: they lie apart, or they are
/// different parts of one pattern that repeats, as the q, k and v of a packed projection are.
template <typename A, typename B>
bool may_overlap(const BasicTensorView<A>& a, const BasicTensorView<B>& b) noexcept {
  const Extent x = extent(a);
  const Extent y = extent(b);
  if (x.first + x.size <= y.first || y.first + y.size <= x.first) return false;
  return may_interleave(a, b);
}

}  // namespace rotary::internal
