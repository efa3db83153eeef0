// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Room for the complex numbers of one token: on the stack for heads as they are, else allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rotary::internal {

/// Up to here a call allocates nothing.
inline constexpr std::int64_t kStackPairs = 256;

template <typename T>
class RowMemory {
 public:
  explicit RowMemory(std::int64_t pairs) : stride_((pairs + kPad - 1) / kPad * kPad) {
    if (pairs <= kStackPairs) return;
    heap_.resize(static_cast<std::size_t>(6 * stride_ + kPad));
    auto address = reinterpret_cast<std::uintptr_t>(heap_.data());
    address = (address + kPad * sizeof(T) - 1) / (kPad * sizeof(T)) * (kPad * sizeof(T));
    first_ = reinterpret_cast<T*>(address);
  }
  RowMemory(const RowMemory&) = delete;
  RowMemory& operator=(const RowMemory&) = delete;

  // Each of `pairs` entries, rounded up to a multiple of 64; the other ones of twice as many.
  T* c() noexcept { return first_; }
  T* s() noexcept { return first_ + stride_; }
  T* other_c() noexcept { return first_ + 2 * stride_; }
  T* other_s() noexcept { return first_ + 4 * stride_; }

 private:
  static constexpr std::int64_t kPad = 64;
  std::int64_t stride_;
  alignas(64) T stack_[static_cast<std::size_t>(6 * kStackPairs)];  // left as it is
  std::vector<T> heap_;
  T* first_ = stack_;
};

}  // namespace rotary::internal
