// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "rope/memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace rotary::internal {
namespace {

/// True if every stride of the view is shorter than the period or a multiple of it.
bool repeats(const ConstTensorView& view, std::int64_t period) noexcept {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] <= 1) continue;
    const std::int64_t step = std::abs(view.strides[i] * size);
    if (step >= period && step % period != 0) return false;
  }
  return true;
}

/// True if the views, each one interval modulo the period, are disjoint.
bool apart_modulo(const ConstTensorView& a, const ConstTensorView& b,
                  std::int64_t period) noexcept {
  if (period <= 0 || !repeats(a, period) || !repeats(b, period)) return false;
  const auto circle = static_cast<std::uint64_t>(period);
  const Extent x = extent(a, period);
  const Extent y = extent(b, period);
  if (x.size > circle || y.size > circle) return false;
  const auto difference = [circle](std::uint64_t from, std::uint64_t to) {
    return to >= from ? (to - from) % circle : (circle - (from - to) % circle) % circle;
  };
  return difference(x.first, y.first) >= x.size && difference(y.first, x.first) >= y.size;
}

}  // namespace

bool fits_memory(const ConstTensorView& view) noexcept {
  constexpr std::int64_t kMax = std::int64_t{1} << 58;  // elements; times 8 bytes still fits
  std::int64_t count = 1;
  std::int64_t reach = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    const std::int64_t size = std::max<std::int64_t>(view.shape[i], 1);
    std::int64_t step = 0;
    if (__builtin_mul_overflow(count, size, &count) || count > kMax) return false;
    if (__builtin_mul_overflow(size - 1, view.strides[i], &step)) return false;
    if (step < -kMax || step > kMax) return false;
    reach += std::abs(step);
  }
  return reach <= kMax;
}

bool elements_are_distinct(const ConstTensorView& view) noexcept {
  if (ordinary_reach(view) != 0) return true;
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> dims{};  // stride, size
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.rank); ++i) {
    if (view.shape[i] > 1) dims[i] = {std::abs(view.strides[i]), view.shape[i]};
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (size <= 1) continue;
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

bool is_same_memory(const ConstTensorView& a, const ConstTensorView& b) noexcept {
  bool same = a.data == b.data && a.dtype == b.dtype;
  for (std::size_t i = 0; same && i < static_cast<std::size_t>(a.rank); ++i) {
    same = a.shape[i] == 1 || a.strides[i] == b.strides[i];
  }
  return same;
}

bool may_interleave(const ConstTensorView& a, const ConstTensorView& b) noexcept {
  if (a.num_elements() == 0 || b.num_elements() == 0) return false;
  const auto size = static_cast<std::int64_t>(size_of(a.dtype));
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.rank); ++i) {
    if (a.shape[i] > 1 && apart_modulo(a, b, std::abs(a.strides[i]) * size)) return false;
  }
  return true;
}

}  // namespace rotary::internal
