// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A hash of bytes for checksums and fingerprints. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace rotary::roformer {

/// FNV-1a's step over words of 8 bytes, little endian, the last padded with zeros; the length is
/// mixed in last. Each step is one-to-one, so that a change within one word is always seen.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) noexcept;

/// One-to-one and well mixed: the finaliser of splitmix64.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

}  // namespace rotary::roformer
