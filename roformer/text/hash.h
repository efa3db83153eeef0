// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A non-cryptographic hash of bytes, for checksums and fingerprints.
#pragma once

#include <cstdint>
#include <string_view>

namespace rotary::roformer {

/// FNV-1a over little-endian words of 8 bytes, the last padded with zeros; then the length is mixed
/// in. Each step is bijective, so that a change within one word always changes the hash.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) noexcept;

/// The finaliser of splitmix64: bijective and well mixed.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

}  // namespace rotary::roformer
