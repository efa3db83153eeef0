// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Whole numbers of files, little endian on any machine.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace rotary::internal {

/// The number at `at`, which the caller has checked to lie in `bytes`.
template <typename T>
T read_little(std::string_view bytes, std::size_t at) {
  using Bits = std::make_unsigned_t<T>;
  Bits bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bits |=
        static_cast<Bits>(static_cast<Bits>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return static_cast<T>(bits);
}

}  // namespace rotary::internal
