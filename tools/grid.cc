// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/grid.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace rotary::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowest = 8;

/// The first `width` code points, the last three as dots where something is cut.
std::string cut(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && ++seen > width - 3) break;
  }
  return text.substr(0, end) + "...";
}

}  // namespace

std::string Grid::text(const Terminal& terminal) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  // The widest columns give way first.
  const std::size_t room = terminal.columns - kIndent - kGap * (widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), std::size_t{0}) > room) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kNarrowest) break;
    --*widest;
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += pad(cut(row[i], widths[i]), widths[i] + kGap);
    line.erase(line.find_last_not_of(' ') + 1);
    text.append(kIndent, ' ')
        .append(&row == &rows_.front() ? paint(terminal, Style::kFaint, line) : line);
    text += '\n';
  }
  return text;
}

}  // namespace rotary::cli
