// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Quoting of untrusted text in error messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rotary::internal {

/// In quotes, truncated to 64 bytes, with bytes other than printable ASCII as \xNN.
inline std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result.append("\\x") += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  return result + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace rotary::internal
