// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Text files with one entry per line, and errors with the line number.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rotary::roformer {

/// Calls visit(line, number), counted from 1; lines come without "\n" or "\r\n".
template <typename Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, number);
  }
}

/// Throws IoError: "vocab.txt: line 7: ...".
[[noreturn]] void fail_at_line(const std::string& source, std::size_t number,
                               const std::string& message);

/// In quotes, for error messages: at most 40 bytes, control characters as "?".
std::string in_quotes(std::string_view text);

}  // namespace rotary::roformer
