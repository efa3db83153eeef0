// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Counter-based random numbers: functions of a key, the same on every machine, rank and thread.
#pragma once

#include <cstdint>

#include "roformer/text/hash.h"

namespace rotary::roformer {

/// splitmix64: number n of a key is mix(key + n * constant).
class Random {
 public:
  /// Different seeds or streams give independent sequences.
  Random(std::uint64_t seed, std::uint64_t stream) noexcept
      : state_(mix(mix(seed + kStep) ^ (stream * kStep + 1))) {}

  std::uint64_t next() noexcept { return mix(state_ += kStep); }
  /// In [0, 1), 53 bits.
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, n), 0 < n < 2^32; a bias of at most n / 2^32.
  std::uint32_t below(std::uint32_t n) noexcept {
    return static_cast<std::uint32_t>((next() >> 32) * n >> 32);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
  std::uint64_t state_;
};

}  // namespace rotary::roformer
