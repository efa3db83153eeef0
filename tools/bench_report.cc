// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/bench_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "explain/format.h"
#include "explain/rope_json.h"
#include "explain/terminal.h"
#include "explain/text_layout.h"
#include "explain/text_table.h"
#include "rotary/cpu.h"
#include "rotary/version.h"
#include "tools/bench_targets.h"
#include "tools/measure/machine.h"

namespace rotary::cli {
namespace {

using explain::Json;
using explain::paint;
using explain::Style;
using explain::Terminal;

using measure::Measurement;
using measure::Placement;
using measure::Tables;
using measure::Timing;

/// Rounded to five significant digits.
double rounded(double value) {
  if (!(value > 0.0)) return value;
  const double digits = 4.0 - std::floor(std::log10(value));  // after the decimal point
  const double unit = std::pow(10.0, std::abs(digits));
  return digits < 0.0 ? std::round(value / unit) * unit : std::round(value * unit) / unit;
}

Json rounded(const std::optional<double>& value) {
  return value ? Json(rounded(*value)) : Json(nullptr);
}

Json row_json(const Measurement& row) {
  return {{"shape", measure::name_of(row.shape)},
          {"batch", row.shape.batch},
          {"tokens", row.shape.all_tokens()},
          {"heads", row.shape.heads()},
          {"head_dim", row.shape.head_dim},
          {"dtype", measure::short_name_of(row.dtype)},
          {"pairing", name_of(row.variant.pairing)},
          {"placement", measure::name_of(row.variant.placement)},
          {"tables", measure::name_of(row.variant.tables)},
          {"threads", row.threads},
          {"ns", rounded(row.rotate.ns)},
          {"copy_ns", rounded(row.copy.ns)},
          {"scale_ns", rounded(row.scale.ns)},
          {"spread", rounded(row.rotate.spread)},
          {"gb_per_s", rounded(row.gb_per_s())},
          {"ratio", rounded(row.rotate.ns / row.copy.ns)},
          {"times_copy", rounded(row.times_copy)},
          {"times_scale", rounded(row.times_scale)},
          {"times_half", rounded(row.times_half)},
          {"times_ready", rounded(row.times_ready)}};
}

// ---- Text ---------------------------------------------------------------------------------------

std::string cell(const std::string& text, std::size_t width) {
  return explain::pad_left(text, width);
}

std::vector<std::string> header() {
  return {"dtype",           "pairing",          "place",
          "tables",          cell("time", 8),    cell("GB/s", 5),
          cell("x copy", 6), cell("x scale", 7), cell("spread", 6)};
}

/// A time and its ratios to the references.
struct TableFigures {
  Timing timing;
  double times_copy = 0.0;
  double times_scale = 0.0;
};

/// `row` gives shape and type. `what`, `place` and `tables` are empty where they do not apply.
std::vector<std::string> cells(const Measurement& row, std::string_view what,
                               std::string_view place, std::string_view tables,
                               const TableFigures& figures) {
  const Timing& timing = figures.timing;
  return {std::string(measure::short_name_of(row.dtype)),
          std::string(what),
          std::string(place),
          std::string(tables),
          cell(explain::format_duration(timing.ns), 8),
          cell(fmt::format("{:.1f}", row.gb_per_s(timing)), 5),
          cell(fmt::format("{:.2f}", figures.times_copy), 6),
          cell(fmt::format("{:.2f}", figures.times_scale), 7),
          cell(fmt::format("{:.0f} %", 100.0 * timing.spread), 6)};
}

std::string_view place_of(const Measurement& row) {
  switch (row.variant.placement) {
    case Placement::kInPlace:
      return "in";
    case Placement::kOutOfPlace:
      return "out";
    case Placement::kUnaligned:
      break;
  }
  return "out+";
}

bool same_group(const Measurement& a, const Measurement& b) {
  return a.shape == b.shape && a.threads == b.threads;
}

/// The copy and scale loops that the rows of one type are compared with.
void add_references(explain::TextTable& table, const std::vector<const Measurement*>& rows) {
  for (const Placement placement : measure::kPlacements) {
    const auto found = std::find_if(rows.begin(), rows.end(), [placement](const Measurement* row) {
      return row->variant.placement == placement;
    });
    if (found == rows.end()) continue;
    const Measurement& row = **found;
    if (placement != Placement::kInPlace) {
      table.add_row(
          cells(row, "(copy)", place_of(row), "", {row.copy, 1.0, row.copy.ns / row.scale.ns}));
    }
    table.add_row(
        cells(row, "(scale)", place_of(row), "", {row.scale, row.scale.ns / row.copy.ns, 1.0}));
  }
}

std::string group_text(const std::vector<Measurement>& rows, const Measurement& first,
                       const Terminal& terminal) {
  explain::TextTable table(header());
  std::vector<DType> seen;
  for (const Measurement& leader : rows) {
    if (!same_group(leader, first)) continue;
    if (std::find(seen.begin(), seen.end(), leader.dtype) != seen.end()) continue;
    seen.push_back(leader.dtype);
    std::vector<const Measurement*> same;
    for (const Measurement& row : rows) {
      if (same_group(row, first) && row.dtype == leader.dtype) same.push_back(&row);
    }
    add_references(table, same);
    for (const Measurement* row : same) {
      table.add_row(cells(*row, name_of(row->variant.pairing), place_of(*row),
                          row->variant.tables == Tables::kReady ? "ready" : "fly",
                          {row->rotate, row->times_copy, row->times_scale}));
    }
  }
  const std::string title = fmt::format("{}, {}", measure::name_of(first.shape),
                                        explain::plural(first.threads, "thread"));
  return "\n" + paint(terminal, Style::kTitle, title) + "\n" + table.text(terminal);
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kMet:
      return "met";
    case Outcome::kMissed:
      return "missed";
    case Outcome::kNoLimit:
      break;
  }
  return "";
}

/// The worst row of each target, and which row that is for missed targets.
std::string targets_text(const std::vector<Measurement>& rows, const Terminal& terminal) {
  const std::vector<TargetResult> targets = check_targets(rows, cpu_target());
  if (targets.empty()) return "";
  explain::TextTable table({"target", "worst", "limit", ""});
  std::string missed;
  for (const TargetResult& target : targets) {
    table.add_row(
        {target.name, target.measured, target.limit, std::string(name_of(target.outcome))});
    if (target.outcome == Outcome::kMissed) {
      missed += fmt::format("  {} in {}\n", target.measured, target.row);
    }
  }
  if (!missed.empty()) missed = "  Missed:\n" + missed;
  return "\n" + paint(terminal, Style::kTitle, "Targets") + "\n" + table.text(terminal) + missed;
}

/// Times are noisy if half of the rows have a larger spread than this.
constexpr double kMaxSpread = 0.1;

std::string noise_text(const std::vector<Measurement>& rows, const Terminal& terminal) {
  const auto noisy = std::count_if(rows.begin(), rows.end(), [](const Measurement& row) {
    return row.rotate.spread > kMaxSpread;
  });
  if (2 * noisy <= static_cast<std::ptrdiff_t>(rows.size())) return "";
  return paint(terminal, Style::kWarning, "warning:") +
         " times vary widely: other programs were running. Measure again.\n";
}

constexpr std::string_view kLegend =
    "Time of one call for q and k together. x copy, x scale: ratio to a memcpy of the same bytes, "
    "and to multiplying them by a scalar (in place or not, like the row). GB/s: bytes read and "
    "written. place: in place, out of place to aligned memory, or (out+) to 16 bytes past a page. "
    "tables: cos and sin ready in a table, or computed on the fly.";

}  // namespace

std::string bench_json(const std::vector<Measurement>& rows) {
  std::string text = fmt::format("{{\n  \"machine\": {},\n", Json(measure::machine_name()).dump());
  text += fmt::format("  \"version\": \"{}\",\n", ROTARY_VERSION_STRING);
  text += fmt::format("  \"target\": \"{}\",\n  \"rows\": [", cpu_target());
  std::string_view separator = "\n";
  for (const Measurement& row : rows) {
    text.append(separator).append("    ").append(row_json(row).dump());
    separator = ",\n";
  }
  return text + "\n  ]\n}\n";
}

std::string bench_text(const std::vector<Measurement>& rows, const Terminal& terminal) {
  std::string text = paint(terminal, Style::kTitle, "rotary " ROTARY_VERSION_STRING) + "  " +
                     explain::printable(measure::machine_name()) + "\n";
  for (const std::string& line : explain::wrap(kLegend, terminal.columns)) text += line + "\n";
  std::vector<const Measurement*> groups;
  for (const Measurement& row : rows) {
    const auto same = [&row](const Measurement* other) { return same_group(row, *other); };
    if (std::none_of(groups.begin(), groups.end(), same)) groups.push_back(&row);
  }
  for (const Measurement* first : groups) text += group_text(rows, *first, terminal);
  return text + targets_text(rows, terminal) + noise_text(rows, terminal);
}

}  // namespace rotary::cli
