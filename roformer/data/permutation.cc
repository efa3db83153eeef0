// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/data/permutation.h"

#include <bit>
#include <utility>

#include "roformer/data/random.h"

namespace rotary::roformer {

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream) noexcept
    : size_(size), half_bits_((static_cast<int>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2) {
  Random random(seed, stream);
  for (std::uint64_t& key : keys_) key = random.next();
}

std::uint64_t Permutation::operator()(std::uint64_t i) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_;
    std::uint64_t right = i & mask;
    for (const std::uint64_t key : keys_) {
      left ^= mix(right + key) & mask;
      std::swap(left, right);
    }
    i = left << half_bits_ | right;
  } while (i >= size_);
  return i;
}

}  // namespace rotary::roformer
