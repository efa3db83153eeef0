// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A table of short texts with aligned columns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/terminal.h"

namespace rotary::cli {

class Grid {
 public:
  explicit Grid(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// As many cells as the header has.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Indented lines, the header faint. Cells too wide for the terminal are cut.
  std::string text(const Terminal& terminal) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rotary::cli
