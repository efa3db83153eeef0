// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Standard output of a command.
#pragma once

#include <string_view>

#include "explain/terminal.h"

namespace rotary::console {

/// The terminal behind stdout, from the terminal itself and the environment (COLUMNS, NO_COLOR,
/// TERM, the locale). Columns are limited to 60 .. 100. Sets the locale of character types.
explain::Terminal detect_terminal();

/// Writes to stdout and flushes. Throws std::runtime_error when that fails (a full disk).
void print_out(std::string_view text);

/// Writes to stderr. Where nobody can read it (closed, a full disk), it is lost: the exit code
/// tells.
void print_error(std::string_view text) noexcept;

/// Opens /dev/null in place of standard streams that are closed: a file would otherwise get their
/// number, and messages would be written into it. Writing to a closed stdout remains an error.
void open_standard_streams() noexcept;

}  // namespace rotary::console
