// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/text_table.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "explain/text_layout.h"

namespace rotary::explain {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kMinColumnWidth = 8;

/// The first `width` code points; the last three are dots if the text was longer.
std::string truncate(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && ++seen > width - 3) break;
  }
  return text.substr(0, end) + "...";
}

}  // namespace

std::string TextTable::text(const Terminal& terminal) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  // The widest column shrinks first.
  const std::size_t available = terminal.columns - kIndent - kGap * (widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), std::size_t{0}) > available) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kMinColumnWidth) break;
    --*widest;
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += pad(truncate(row[i], widths[i]), widths[i] + kGap);
    line.erase(line.find_last_not_of(' ') + 1);
    text.append(kIndent, ' ')
        .append(&row == &rows_.front() ? paint(terminal, Style::kFaint, line) : line);
    text += '\n';
  }
  return text;
}

}  // namespace rotary::explain
