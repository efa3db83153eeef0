// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/terminal.h"

#include <fmt/core.h>

namespace rotary::explain {
namespace {

const char* ansi_code(Style style) {
  switch (style) {
    case Style::kTitle:
      return "1";  // bold
    case Style::kFaint:
      return "2";
    case Style::kValue:
      return "36";  // cyan
    case Style::kWarning:
      return "33";  // yellow
  }
  return "0";
}

}  // namespace

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", ansi_code(style), text);
}

}  // namespace rotary::explain
