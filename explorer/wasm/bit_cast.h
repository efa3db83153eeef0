// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// std::bit_cast for standard libraries that lack it; included before every file of the WebAssembly
// build.
#pragma once

#ifdef __cplusplus
#include <bit>

#ifndef __cpp_lib_bit_cast
// NOLINTNEXTLINE(cert-dcl58-cpp): what C++20 has there.
namespace std {
template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif
#endif
