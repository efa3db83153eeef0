// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Escaping, padding and wrapping of text for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::explain {

/// Control characters and invalid UTF-8 as \xNN, so that text from files cannot send escape
/// sequences to the terminal.
std::string printable(std::string_view text);

/// Code points of UTF-8 text. Every character that is printed is assumed one column wide.
std::size_t width_of(std::string_view text);

/// Spaces on the right (pad) or left (pad_left) up to `width` columns.
std::string pad(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

/// Wraps a text into lines of at most `width` columns; a longer word gets a line of its own.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace rotary::explain
