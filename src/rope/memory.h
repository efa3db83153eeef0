// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The memory that a view covers: bounds and overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "rotary/tensor.h"

namespace rotary::internal {

/// Fast path of the checks below, one pass (a decoding step spends much of its time on checks).
/// Nearly every tensor is ordinary: not empty, strides in decreasing order without overlap, sizes
/// far from the limits of memory. Such a view fits into memory and its elements are distinct.
/// Returns a bound of its extent from `data` on, in elements; 0 for other views.
template <typename Void>
std::int64_t ordinary_reach(const BasicTensorView<Void>& view) noexcept {
  constexpr std::int64_t kMax = std::int64_t{1} << 28;
  std::int64_t reach = 1;
  for (auto i = static_cast<std::size_t>(view.rank); i-- > 0;) {
    const std::int64_t size = view.shape[i];
    if (size == 1) continue;
    const std::int64_t stride = view.strides[i];
    if (size < 1 || size > kMax || stride < reach || stride > kMax) return 0;
    reach = stride * size;
  }
  return reach;
}

/// False if sizes or strides exceed the address space.
bool fits_memory(const ConstTensorView& view) noexcept;

/// True if no two elements share an address: sorted by stride, each stride exceeds the extent of
/// the smaller ones. Conservative: false also for some interleaved views without shared addresses.
bool elements_are_distinct(const ConstTensorView& view) noexcept;

/// The same elements at the same addresses in the same order; shapes are equal.
bool is_same_memory(const ConstTensorView& a, const ConstTensorView& b) noexcept;

/// The byte range of a view. Addresses may wrap: they are plain integers here.
struct Extent {
  std::uint64_t first;
  std::uint64_t size;
};

/// The extent over dimensions with strides of less than `period` bytes.
template <typename Void>
Extent extent(const BasicTensorView<Void>& view, std::int64_t period = INT64_MAX) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] <= 1) continue;  // its stride is unused
    const std::int64_t step = view.strides[i] * size;
    if (std::abs(step) >= period) continue;
    (step < 0 ? low : high) += (view.shape[i] - 1) * step;
  }
  return {reinterpret_cast<std::uintptr_t>(view.data) + static_cast<std::uint64_t>(low),
          static_cast<std::uint64_t>(high - low + size)};
}

/// may_overlap() for views whose extents intersect.
bool may_interleave(const ConstTensorView& a, const ConstTensorView& b) noexcept;

/// False if the views provably share no byte: their extents are disjoint, or they are disjoint
/// parts of one repeating pattern, like q, k and v of a packed projection.
template <typename A, typename B>
bool may_overlap(const BasicTensorView<A>& a, const BasicTensorView<B>& b) noexcept {
  const Extent x = extent(a);
  const Extent y = extent(b);
  if (x.first + x.size <= y.first || y.first + y.size <= x.first) return false;
  return may_interleave(a, b);
}

}  // namespace rotary::internal
