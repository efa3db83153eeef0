// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A table of text cells in aligned columns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "explain/terminal.h"

namespace rotary::explain {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// `cells`: as many as the header has.
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Indented lines, the header faint. Columns shrink to the terminal, and cells that no longer fit
  /// are truncated with "...".
  std::string text(const Terminal& terminal) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rotary::explain
