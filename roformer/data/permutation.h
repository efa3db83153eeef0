// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A random order of any number of things, without a list of them.
#pragma once

#include <array>
#include <cstdint>

namespace rotary::roformer {

/// Maps 0 ... size - 1 one-to-one onto themselves: a Feistel network over the next even power of
/// two, whose results beyond `size` are put in again. Constant memory; about 20 ns a call.
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
