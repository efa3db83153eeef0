// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "tools/words.h"

namespace rotary::cli {
namespace {

constexpr int kRows = 12;
constexpr int kSteps = 8;  // of a character cell
constexpr std::size_t kMostColumns = 64;
constexpr std::size_t kLabelWidth = 7;

struct Glyphs {
  std::array<std::string_view, kSteps + 1> part;  // eighths of a bar
  std::string_view stretched, line, axis, tick, cross, corner, floor, floor_tick;
};

constexpr Glyphs kUnicode{
    {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "▒", "╌", "│", "┤", "┼", "└", "─", "┬"};
constexpr Glyphs kAscii{
    {" ", " ", " ", " ", "#", "#", "#", "#", "#"}, "+", "-", "|", "+", "+", "+", "-", "+"};

/// One bar: the mean of its pairs, in steps of an eighth of a row.
struct Bar {
  int height = 0;
  int unscaled = 0;
  char axis = ' ';
};

struct Scale {
  double low = 0.0;  // log10 of the wavelength at the floor
  double per_row = 1.0;

  double rows(double wavelength) const { return (std::log10(wavelength) - low) / per_row; }
  int steps(double wavelength) const {
    return std::clamp(static_cast<int>(std::lround(kSteps * rows(wavelength))), 1, kSteps * kRows);
  }
};

/// From the shortest wavelength, which gets a bar of half a row, to the longest or the context.
Scale make_scale(const std::vector<PairWave>& waves, std::int64_t trained_context) {
  double low = 300.0;
  double high = -300.0;
  for (const PairWave& wave : waves) {
    if (wave.stands_still()) continue;
    low = std::min(low, std::log10(std::min(wave.length, wave.unscaled)));
    high = std::max(high, std::log10(wave.length));
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

/// The bar of `count` neighbouring pairs.
Bar make_bar(const PairWave* first, std::size_t count, const std::vector<std::string>& axes,
             const Scale& scale) {
  double length = 0.0;
  double unscaled = 0.0;
  double turning = 0.0;
  Bar bar{.axis = '-'};
  for (const PairWave* wave = first; wave != first + count; ++wave) {
    if (wave->stands_still()) continue;
    length += std::log10(wave->length);
    unscaled += std::log10(wave->unscaled);
    const char letter = letter_of(wave->axis, axes);
    bar.axis = turning == 0.0 || bar.axis == letter ? letter : '*';
    turning += 1.0;
  }
  if (turning == 0.0) return bar;
  bar.height = scale.steps(std::pow(10.0, length / turning));
  bar.unscaled = scale.steps(std::pow(10.0, unscaled / turning));
  return bar;
}

struct Chart {
  std::vector<Bar> bars{};
  std::size_t pairs_per_bar = 1;
  std::size_t columns_per_bar = 1;
  Scale scale{};
  int line_row = -1;  // of the trained context
  std::int64_t trained_context = 0;
};

Chart make_chart(const std::vector<PairWave>& waves, const std::vector<std::string>& axes,
                 std::int64_t trained_context, std::size_t most_columns) {
  Chart chart{.scale = make_scale(waves, trained_context), .trained_context = trained_context};
  chart.pairs_per_bar = (waves.size() + most_columns - 1) / most_columns;
  for (std::size_t i = 0; i < waves.size(); i += chart.pairs_per_bar) {
    const std::size_t count = std::min(chart.pairs_per_bar, waves.size() - i);
    chart.bars.push_back(make_bar(&waves[i], count, axes, chart.scale));
  }
  chart.columns_per_bar = std::clamp<std::size_t>(most_columns / chart.bars.size(), 1, 4);
  if (trained_context > 0) {
    const double row = chart.scale.rows(static_cast<double>(trained_context));
    if (row >= 0.0) chart.line_row = std::min(static_cast<int>(row), kRows - 1);
  }
  return chart;
}

/// 10, 100, 1k, ... where a power of ten lies in the row.
std::string decade_label(const Scale& scale, int row) {
  constexpr std::array<std::string_view, 5> kUnits{"", "k", "M", "G", "T"};
  const double top = scale.low + scale.per_row * (row + 1);
  const auto decade = static_cast<int>(std::ceil(top)) - 1;
  if (decade < scale.low + scale.per_row * row) return "";
  if (decade < 0 || decade >= 15) return fmt::format("1e{}", decade);
  return fmt::format("{:.0f}{}", std::pow(10.0, decade % 3),
                     kUnits[static_cast<std::size_t>(decade / 3)]);
}

/// Neighbouring cells of one style share their escape codes.
class Line {
 public:
  explicit Line(const Terminal& terminal) : terminal_(terminal) {}

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

bool is_stretched(const Bar& bar) { return bar.unscaled + kSteps / 2 < bar.height; }

void add_cell(Line& line, const Chart& chart, const Bar& bar, int row, const Glyphs& glyphs) {
  const int fill = std::clamp(bar.height - row * kSteps, 0, kSteps);
  // The part that the scaling added is shaded, in whole cells.
  const bool shaded = is_stretched(bar) && bar.unscaled - row * kSteps < kSteps / 2;
  std::string_view glyph = glyphs.part[static_cast<std::size_t>(fill)];
  if (shaded) glyph = fill < kSteps / 2 ? " " : glyphs.stretched;
  if (glyph == " ") {
    const bool on_line = row == chart.line_row;
    return line.add(on_line ? Style::kWarning : Style::kFaint, on_line ? glyphs.line : " ");
  }
  const bool beyond = chart.line_row >= 0 && row > chart.line_row;
  line.add(beyond ? Style::kWarning : Style::kValue, glyph);
}

std::string draw_row(const Chart& chart, int row, const Glyphs& glyphs, const Terminal& terminal) {
  const bool on_line = row == chart.line_row;
  const std::string label =
      on_line ? fmt::format("{}", chart.trained_context) : decade_label(chart.scale, row);
  Line line(terminal);
  line.add(on_line ? Style::kWarning : Style::kFaint, pad_left(label, kLabelWidth) + " ");
  line.add(Style::kFaint, on_line ? glyphs.cross : label.empty() ? glyphs.axis : glyphs.tick);
  for (const Bar& bar : chart.bars) {
    for (std::size_t i = 0; i < chart.columns_per_bar; ++i) add_cell(line, chart, bar, row, glyphs);
  }
  std::string text = line.finish();
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// The floor with a tick now and then, and the pair numbers beneath.
std::vector<std::string> draw_floor(const Chart& chart, const Glyphs& glyphs,
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
  if (std::any_of(chart.bars.begin(), chart.bars.end(), is_stretched)) {
    parts.push_back(paint(terminal, Style::kValue, glyphs.part[kSteps]) + " without scaling");
    parts.push_back(paint(terminal, Style::kValue, glyphs.stretched) + " added by scaling");
  }
  if (chart.line_row >= 0) {
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

std::vector<std::string> draw_chart(const std::vector<PairWave>& waves,
                                    const std::vector<std::string>& axes,
                                    std::int64_t trained_context, const Terminal& terminal) {
  const bool turns = std::any_of(waves.begin(), waves.end(),
                                 [](const PairWave& wave) { return !wave.stands_still(); });
  if (!turns) return {};
  const Glyphs& glyphs = terminal.unicode ? kUnicode : kAscii;
  const std::size_t room = std::max<std::size_t>(terminal.columns, 40) - kLabelWidth - 6;
  const Chart chart = make_chart(waves, axes, trained_context, std::min(kMostColumns, room));
  std::vector<std::string> lines;
  for (int row = kRows - 1; row >= 0; --row)
    lines.push_back(draw_row(chart, row, glyphs, terminal));
  for (std::string& line : draw_floor(chart, glyphs, terminal)) lines.push_back(std::move(line));
  if (axes.size() > 1) lines.push_back(draw_axes(chart, terminal));
  for (std::string& line : draw_legend(chart, glyphs, terminal)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace rotary::cli
