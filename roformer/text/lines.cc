// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/text/lines.h"

#include "rotary/error.h"

namespace rotary::roformer {

void fail_at_line(const std::string& source, std::size_t number, const std::string& message) {
  throw IoError(source, IoError::kNoOffset, "line " + std::to_string(number) + ": " + message);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxBytes = 40;
  std::size_t size = std::min(text.size(), kMaxBytes);
  // Not within a UTF-8 sequence.
  while (size < text.size() && size > 0 &&
         (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) {
    --size;
  }
  std::string out = "\"";
  for (const char c : text.substr(0, size)) {
    out += static_cast<unsigned char>(c) < ' ' || c == 0x7F ? '?' : c;
  }
  return out + (size < text.size() ? "...\"" : "\"");
}

}  // namespace rotary::roformer
