// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Properties of a terminal, and text in its colours.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rotary::explain {

struct Terminal {
  std::size_t columns = 80;
  /// Whether ANSI colour codes are written.
  bool colour = false;
  /// Whether characters outside ASCII are written.
  bool unicode = false;
};

enum class Style { kTitle, kFaint, kValue, kWarning };

/// The text in the colour of the style; unchanged on a terminal without colours.
std::string paint(const Terminal& terminal, Style style, std::string_view text);

}  // namespace rotary::explain
