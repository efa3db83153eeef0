// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the reader's terminal can show, and text made fit for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rotary::cli {

struct Terminal {
  std::size_t columns = 80;
  /// stdout is a terminal, NO_COLOR is unset and TERM is not "dumb".
  bool colour = false;
  /// The locale is UTF-8; else only ASCII is printed.
  bool unicode = false;
};

/// Looks at stdout and the environment. Sets the locale of character types.
Terminal detect_terminal();

enum class Style { kTitle, kFaint, kValue, kWarning };

/// The text in the colour of the style, or as it is where there are no colours.
std::string paint(const Terminal& terminal, Style style, std::string_view text);

/// Control characters and stray bytes as \xNN: text from files must not steer the terminal.
std::string printable(std::string_view text);

/// Code points of UTF-8 text; every character that this command prints is one column wide.
std::size_t width_of(std::string_view text);

/// With spaces on the right (pad) or left (pad_left) up to `width` columns.
std::string pad(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

/// The words of a text in lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

/// Writes to stdout. Throws std::runtime_error when that fails (a full disk).
void print_out(std::string_view text);

}  // namespace rotary::cli
