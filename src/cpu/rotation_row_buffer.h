// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Memory for the cos and sin of some tokens: on the stack for usual heads, otherwise allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rotary::internal {

/// Calls with at most so many pairs allocate nothing.
inline constexpr std::int64_t kMaxStackPairs = 256;

template <typename T>
class RotationRowBuffer {
 public:
  /// Rows of `pairs`; with `is_arranged` they have space for another RowLayout.
  RotationRowBuffer(std::int64_t pairs, bool is_arranged)
      : stride_((pairs + kPad - 1) / kPad * kPad),
        row_size_((is_arranged ? 6 : 2) * stride_),
        max_rows_(pairs <= kMaxStackPairs ? kStackSize / row_size_ : kHeapRows) {
    if (pairs <= kMaxStackPairs) return;
    heap_.resize(static_cast<std::size_t>(kHeapRows * row_size_ + kPad));
    auto address = reinterpret_cast<std::uintptr_t>(heap_.data());
    address = (address + kPad * sizeof(T) - 1) / (kPad * sizeof(T)) * (kPad * sizeof(T));
    first_ = reinterpret_cast<T*>(address);
  }
  RotationRowBuffer(const RotationRowBuffer&) = delete;
  RotationRowBuffer& operator=(const RotationRowBuffer&) = delete;

  /// At least 2.
  std::int64_t max_rows() const noexcept { return max_rows_; }

  // Of row 0 .. max_rows() - 1: `pairs` entries each, rounded up to a multiple of 64; twice as many
  // for the arranged ones.
  T* c(std::int64_t row) noexcept { return first_ + row * row_size_; }
  T* s(std::int64_t row) noexcept { return c(row) + stride_; }
  T* arranged_c(std::int64_t row) noexcept { return c(row) + 2 * stride_; }
  T* arranged_s(std::int64_t row) noexcept { return c(row) + 4 * stride_; }

 private:
  static constexpr std::int64_t kPad = 64;
  static constexpr std::int64_t kHeapRows = 2;
  /// 24 KiB: part of every first-level cache. 16 arranged rows of 64 pairs in float, and 2 of
  /// kMaxStackPairs in double.
  static constexpr std::int64_t kStackSize = (24 << 10) / static_cast<std::int64_t>(sizeof(T));
  static_assert(kStackSize >= 2 * 6 * kMaxStackPairs);
  std::int64_t stride_;
  std::int64_t row_size_;
  std::int64_t max_rows_;
  alignas(64) T stack_[static_cast<std::size_t>(kStackSize)];  // uninitialised
  std::vector<T> heap_;
  T* first_ = stack_;
};

}  // namespace rotary::internal
