// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Error texts: "[function] rule, got value".
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace rotary::internal {

/// Concatenates the arguments; doubles with 12 significant digits.
template <typename... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  out.precision(12);
  (out << ... << args);
  return out.str();
}

/// Throws std::invalid_argument with the arguments as its text.
template <typename... Args>
[[noreturn]] void reject(const Args&... args) {
  throw std::invalid_argument(concat(args...));
}

}  // namespace rotary::internal
