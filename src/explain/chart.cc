// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "explain/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "explain/text_layout.h"

namespace rotary::explain {
namespace {

constexpr int kRows = 12;
constexpr int kStepsPerRow = 8;
constexpr std::size_t kMaxColumns = 64;
constexpr std::size_t kLabelWidth = 7;

struct Glyphs {
  std::array<std::string_view, kStepsPerRow + 1> fill;  // a bar in eighths of a row
  std::string_view added, line, axis, tick, cross, corner, floor, floor_tick;
};

constexpr Glyphs kUnicode{
    {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "▒", "╌", "│", "┤", "┼", "└", "─", "┬"};
constexpr Glyphs kAscii{
    {" ", " ", " ", " ", "#", "#", "#", "#", "#"}, "+", "-", "|", "+", "+", "+", "-", "+"};

/// One bar: the geometric mean over its pairs, in eighths of a row.
struct Bar {
  int height = 0;
  int unscaled = 0;
  char axis = ' ';
};

struct Scale {
  double low = 0.0;  // log10 of the wavelength at the bottom
  double per_row = 1.0;

  double rows(double wavelength) const { return (std::log10(wavelength) - low) / per_row; }
  int steps(double wavelength) const {
    return std::clamp(static_cast<int>(std::lround(kStepsPerRow * rows(wavelength))), 1,
                      kStepsPerRow * kRows);
  }
};

/// From the shortest wavelength, half a row high, to the longest one or the trained context.
Scale make_scale(const std::vector<PairWavelength>& pairs, std::int64_t trained_context) {
  double low = 300.0;
  double high = -300.0;
  for (const PairWavelength& pair : pairs) {
    if (!pair.rotates()) continue;
    low = std::min(low, std::log10(std::min(pair.wavelength, pair.unscaled)));
    high = std::max(high, std::log10(pair.wavelength));
  }
  if (trained_context > 0) high = std::max(high, std::log10(static_cast<double>(trained_context)));
  const double per_row = std::max(high - low, 0.1) / (kRows - 0.6);
  return {.low = low - 0.5 * per_row, .per_row = per_row};
}

char letter_of(std::int64_t axis, const std::vector<std::string>& axes) {
  const auto index = static_cast<std::size_t>(axis);
  if (axis < 0 || index >= axes.size() || axes[index].empty()) return '*';
  return axes[index].front();
}

/// The bar of `count` adjacent pairs.
Bar make_bar(const PairWavelength* first, std::size_t count, const std::vector<std::string>& axes,
             const Scale& scale) {
  double wavelength = 0.0;
  double unscaled = 0.0;
  double rotated = 0.0;
  Bar bar{.axis = '-'};
  for (const PairWavelength* pair = first; pair != first + count; ++pair) {
    if (!pair->rotates()) continue;
    wavelength += std::log10(pair->wavelength);
    unscaled += std::log10(pair->unscaled);
    const char letter = letter_of(pair->axis, axes);
    bar.axis = rotated == 0.0 || bar.axis == letter ? letter : '*';
    rotated += 1.0;
  }
  if (rotated == 0.0) return bar;
  bar.height = scale.steps(std::pow(10.0, wavelength / rotated));
  bar.unscaled = scale.steps(std::pow(10.0, unscaled / rotated));
  return bar;
}

struct Chart {
  std::vector<Bar> bars{};
  std::size_t pairs_per_bar = 1;
  std::size_t columns_per_bar = 1;
  Scale scale{};
  int context_row = -1;  // row of the trained context
  std::int64_t trained_context = 0;
};

Chart make_chart(const std::vector<PairWavelength>& pairs, const std::vector<std::string>& axes,
                 std::int64_t trained_context, std::size_t max_columns) {
  Chart chart{.scale = make_scale(pairs, trained_context), .trained_context = trained_context};
  chart.pairs_per_bar = (pairs.size() + max_columns - 1) / max_columns;
  for (std::size_t i = 0; i < pairs.size(); i += chart.pairs_per_bar) {
    const std::size_t count = std::min(chart.pairs_per_bar, pairs.size() - i);
    chart.bars.push_back(make_bar(&pairs[i], count, axes, chart.scale));
  }
  chart.columns_per_bar = std::clamp<std::size_t>(max_columns / chart.bars.size(), 1, 4);
  if (trained_context > 0) {
    const double row = chart.scale.rows(static_cast<double>(trained_context));
    if (row >= 0.0) chart.context_row = std::min(static_cast<int>(row), kRows - 1);
  }
  return chart;
}

/// 10, 100, 1k, ...: the power of ten in this row; empty if there is none.
std::string decade_label(const Scale& scale, int row) {
  constexpr std::array<std::string_view, 5> kUnits{"", "k", "M", "G", "T"};
  const double top = scale.low + scale.per_row * (row + 1);
  const auto decade = static_cast<int>(std::ceil(top)) - 1;
  if (decade < scale.low + scale.per_row * row) return "";
  if (decade < 0 || decade >= 15) return fmt::format("1e{}", decade);
  return fmt::format("{:.0f}{}", std::pow(10.0, decade % 3),
                     kUnits[static_cast<std::size_t>(decade / 3)]);
}

/// A line of cells; adjacent cells of one style share their escape codes.
class StyledLine {
 public:
  explicit StyledLine(const Terminal& terminal) : terminal_(terminal) {}

  void add(Style style, std::string_view glyph) {
    if (style != style_) flush();
    style_ = style;
    pending_ += glyph;
  }
  std::string finish() {
    flush();
    return text_;
  }

 private:
  void flush() {
    text_ += paint(terminal_, style_, pending_);
    pending_.clear();
  }

  const Terminal& terminal_;
  Style style_ = Style::kFaint;
  std::string pending_;
  std::string text_;
};

bool is_scaled(const Bar& bar) { return bar.unscaled + kStepsPerRow / 2 < bar.height; }

void add_cell(StyledLine& line, const Chart& chart, const Bar& bar, int row, const Glyphs& glyphs) {
  const int fill = std::clamp(bar.height - row * kStepsPerRow, 0, kStepsPerRow);
  // What scaling added is shaded, in whole cells.
  const bool shaded = is_scaled(bar) && bar.unscaled - row * kStepsPerRow < kStepsPerRow / 2;
  std::string_view glyph = glyphs.fill[static_cast<std::size_t>(fill)];
  if (shaded) glyph = fill < kStepsPerRow / 2 ? " " : glyphs.added;
  if (glyph == " ") {
    const bool on_line = row == chart.context_row;
    return line.add(on_line ? Style::kWarning : Style::kFaint, on_line ? glyphs.line : " ");
  }
  const bool beyond = chart.context_row >= 0 && row > chart.context_row;
  line.add(beyond ? Style::kWarning : Style::kValue, glyph);
}

std::string draw_row(const Chart& chart, int row, const Glyphs& glyphs, const Terminal& terminal) {
  const bool on_line = row == chart.context_row;
  const std::string label =
      on_line ? fmt::format("{}", chart.trained_context) : decade_label(chart.scale, row);
  StyledLine line(terminal);
  line.add(on_line ? Style::kWarning : Style::kFaint, pad_left(label, kLabelWidth) + " ");
  line.add(Style::kFaint, on_line ? glyphs.cross : label.empty() ? glyphs.axis : glyphs.tick);
  for (const Bar& bar : chart.bars) {
    for (std::size_t i = 0; i < chart.columns_per_bar; ++i) add_cell(line, chart, bar, row, glyphs);
  }
  std::string text = line.finish();
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// The horizontal axis with ticks, and the pair numbers below it.
std::vector<std::string> draw_pair_axis(const Chart& chart, const Glyphs& glyphs,
                                        const Terminal& terminal) {
  constexpr std::size_t kTickColumns = 8;
  const std::size_t step = std::max<std::size_t>(1, kTickColumns / chart.columns_per_bar);
  std::string floor(glyphs.corner);
  std::string numbers;
  for (std::size_t bar = 0; bar < chart.bars.size(); ++bar) {
    const bool tick = bar % step == 0;
    floor += tick ? glyphs.floor_tick : glyphs.floor;
    for (std::size_t i = 1; i < chart.columns_per_bar; ++i) floor += glyphs.floor;
    if (!tick) continue;
    numbers = pad(numbers, bar * chart.columns_per_bar);
    numbers += fmt::format("{}", bar * chart.pairs_per_bar);
  }
  const std::string margin(kLabelWidth + 1, ' ');
  return {margin + paint(terminal, Style::kFaint, floor),
          paint(terminal, Style::kFaint, pad_left("pair", kLabelWidth) + "  " + numbers)};
}

std::string draw_axes(const Chart& chart, const Terminal& terminal) {
  std::string letters;
  for (const Bar& bar : chart.bars) letters.append(chart.columns_per_bar, bar.axis);
  return paint(terminal, Style::kFaint, pad_left("axis", kLabelWidth) + "  ") + letters;
}

std::vector<std::string> draw_legend(const Chart& chart, const Glyphs& glyphs,
                                     const Terminal& terminal) {
  const std::string margin(kLabelWidth + 2, ' ');
  std::vector<std::string> parts;
  if (std::any_of(chart.bars.begin(), chart.bars.end(), is_scaled)) {
    parts.push_back(paint(terminal, Style::kValue, glyphs.fill[kStepsPerRow]) + " without scaling");
    parts.push_back(paint(terminal, Style::kValue, glyphs.added) + " added by scaling");
  }
  if (chart.context_row >= 0) {
    parts.push_back(
        paint(terminal, Style::kWarning, fmt::format("{}{}", glyphs.line, glyphs.line)) +
        " trained context");
  }
  if (parts.empty()) return {};
  constexpr std::size_t kOneLine = 72;
  if (terminal.columns >= kOneLine) return {margin + join(parts, "   ")};
  for (std::string& part : parts) part.insert(0, margin);
  return parts;
}

}  // namespace

std::vector<std::string> draw_chart(const std::vector<PairWavelength>& pairs,
                                    const std::vector<std::string>& axes,
                                    std::int64_t trained_context, const Terminal& terminal) {
  const bool any_rotates = std::any_of(pairs.begin(), pairs.end(),
                                       [](const PairWavelength& pair) { return pair.rotates(); });
  if (!any_rotates) return {};
  const Glyphs& glyphs = terminal.unicode ? kUnicode : kAscii;
  const std::size_t available = std::max<std::size_t>(terminal.columns, 40) - kLabelWidth - 6;
  const Chart chart = make_chart(pairs, axes, trained_context, std::min(kMaxColumns, available));
  std::vector<std::string> lines;
  for (int row = kRows - 1; row >= 0; --row)
    lines.push_back(draw_row(chart, row, glyphs, terminal));
  for (std::string& line : draw_pair_axis(chart, glyphs, terminal))
    lines.push_back(std::move(line));
  if (axes.size() > 1) lines.push_back(draw_axes(chart, terminal));
  for (std::string& line : draw_legend(chart, glyphs, terminal)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace rotary::explain
