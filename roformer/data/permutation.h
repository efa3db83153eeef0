// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A random permutation in constant memory.
#pragma once

#include <array>
#include <cstdint>

namespace rotary::roformer {

/// A bijection of 0 ... size - 1: a Feistel network over the next even power of two with cycle
/// walking (results beyond `size` are permuted again). About 20 ns per call.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) noexcept;
  /// i < size.
  std::uint64_t operator()(std::uint64_t i) const noexcept;

 private:
  static constexpr int kRounds = 4;
  std::uint64_t size_;
  int half_bits_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace rotary::roformer
