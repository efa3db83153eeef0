// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Memory for the cos and sin of one token: on the stack for usual heads, otherwise allocated.
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
  explicit RotationRowBuffer(std::int64_t pairs) : stride_((pairs + kPad - 1) / kPad * kPad) {
    if (pairs <= kMaxStackPairs) return;
    heap_.resize(static_cast<std::size_t>(6 * stride_ + kPad));
    auto address = reinterpret_cast<std::uintptr_t>(heap_.data());
    address = (address + kPad * sizeof(T) - 1) / (kPad * sizeof(T)) * (kPad * sizeof(T));
    first_ = reinterpret_cast<T*>(address);
  }
  RotationRowBuffer(const RotationRowBuffer&) = delete;
  RotationRowBuffer& operator=(const RotationRowBuffer&) = delete;

  // `pairs` entries each, rounded up to a multiple of 64; twice as many for the arranged ones.
  T* c() noexcept { return first_; }
  T* s() noexcept { return first_ + stride_; }
  T* arranged_c() noexcept { return first_ + 2 * stride_; }
  T* arranged_s() noexcept { return first_ + 4 * stride_; }

 private:
  static constexpr std::int64_t kPad = 64;
  std::int64_t stride_;
  alignas(64) T stack_[static_cast<std::size_t>(6 * kMaxStackPairs)];  // uninitialised
  std::vector<T> heap_;
  T* first_ = stack_;
};

}  // namespace rotary::internal
