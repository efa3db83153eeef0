// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/hash.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace rotary::roformer {
namespace {

std::uint64_t word_at(const char* bytes, std::size_t size) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  static_assert(std::endian::native == std::endian::little, "files are little endian");
  return word;
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001B3u;  // FNV's 64-bit prime
  std::uint64_t hash = 0xCBF29CE484222325u ^ mix(seed);
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) hash = (hash ^ word_at(bytes.data() + at, 8)) * kPrime;
  if (at < bytes.size()) {
    hash = (hash ^ word_at(bytes.data() + at, bytes.size() - at)) * kPrime;
  }
  return mix(hash ^ bytes.size());
}

}  // namespace rotary::roformer
