// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The state of a RealignedStreamWriter (writers-inl.h) between the heads of one token and those of
// the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rotary::internal {

/// Each vector of results is split: its first part completes the aligned vector that the one before
/// began, its second part begins the next.
///   results   |  v0  |  v1  |  v2  |        begin `offset` bytes past an aligned address
///   memory   |  |  v0  |  v1  |  v2  |
struct RealignState {
  static constexpr std::int64_t kMaxBytes = 64;

  /// Results continue at `to`. At least a vector of `bytes` before it has been written by ordinary
  /// stores.
  void begin(char* to, std::int64_t bytes) {
    next = to;
    offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to)) & (bytes - 1);
    size = bytes;
    std::memcpy(carry, to - bytes, static_cast<std::size_t>(bytes));
    const auto lanes = static_cast<std::uint32_t>(bytes / 4);
    for (std::uint32_t i = 0; i < lanes; ++i) {
      indices[i] = lanes - static_cast<std::uint32_t>(offset / 4) + i;
    }
  }
  /// Writes what is carried, by ordinary stores: another task may own the bytes that follow.
  void finish() {
    if (next == nullptr) return;
    const char* const end = reinterpret_cast<const char*>(carry) + size;
    std::copy(end - offset, end, next - offset);
    next = nullptr;
  }

  char* next;           // where results continue; null: nothing is carried
  std::int64_t offset;  // of `next` past an aligned address
  std::int64_t size;    // of a vector
  alignas(kMaxBytes) std::uint32_t carry[kMaxBytes / 4];    // the last vector of results
  alignas(kMaxBytes) std::uint32_t indices[kMaxBytes / 4];  // of an aligned vector in [carry, next]
};

}  // namespace rotary::internal
