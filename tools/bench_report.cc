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

#include "bench/measure/machine.h"
#include "rotary/cpu.h"
#include "rotary/version.h"
#include "tools/bench_targets.h"
#include "tools/grid.h"
#include "tools/rope_json.h"
#include "tools/words.h"

namespace rotary::cli {
namespace {

using measure::Placement;
using measure::Row;
using measure::Tables;
using measure::Timing;

/// To five digits: no clock sees more.
double rounded(double value) {
  if (!(value > 0.0)) return value;
  const double digits = 4.0 - std::floor(std::log10(value));  // behind the point
  const double unit = std::pow(10.0, std::abs(digits));
  return digits < 0.0 ? std::round(value / unit) * unit : std::round(value * unit) / unit;
}

Json rounded(const std::optional<double>& value) {
  return value ? Json(rounded(*value)) : Json(nullptr);
}

Json row_json(const Row& row) {
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

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ---- For a person -------------------------------------------------------------------------------

std::string cell(const std::string& text, std::size_t width) { return pad_left(text, width); }

std::vector<std::string> header() {
  return {"dtype",           "pairing",          "place",
          "tables",          cell("time", 8),    cell("GB/s", 5),
          cell("x copy", 6), cell("x scale", 7), cell("spread", 6)};
}

/// What is compared, and with what.
struct Figures {
  Timing timing;
  double times_copy = 0.0;
  double times_scale = 0.0;
};

/// `row` gives the sizes; empty texts where a column does not apply.
std::vector<std::string> cells(const Row& row, std::string_view what, std::string_view place,
                               std::string_view tables, const Figures& figures) {
  const Timing& timing = figures.timing;
  return {std::string(measure::short_name_of(row.dtype)),
          std::string(what),
          std::string(place),
          std::string(tables),
          cell(duration(timing.ns), 8),
          cell(fmt::format("{:.1f}", row.gb_per_s(timing)), 5),
          cell(fmt::format("{:.2f}", figures.times_copy), 6),
          cell(fmt::format("{:.2f}", figures.times_scale), 7),
          cell(fmt::format("{:.0f} %", 100.0 * timing.spread), 6)};
}

std::string_view place_of(const Row& row) {
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

bool same_group(const Row& a, const Row& b) { return a.shape == b.shape && a.threads == b.threads; }

/// What the rows of one type are compared with, once.
void add_references(Grid& grid, const std::vector<const Row*>& rows) {
  for (const Placement placement : measure::kPlacements) {
    const auto found = std::find_if(rows.begin(), rows.end(), [placement](const Row* row) {
      return row->variant.placement == placement;
    });
    if (found == rows.end()) continue;
    const Row& row = **found;
    if (placement != Placement::kInPlace) {
      grid.add(
          cells(row, "(copy)", place_of(row), "", {row.copy, 1.0, row.copy.ns / row.scale.ns}));
    }
    grid.add(
        cells(row, "(scale)", place_of(row), "", {row.scale, row.scale.ns / row.copy.ns, 1.0}));
  }
}

std::string group_text(const std::vector<Row>& rows, const Row& first, const Terminal& terminal) {
  Grid grid(header());
  std::vector<DType> seen;
  for (const Row& leader : rows) {
    if (!same_group(leader, first)) continue;
    if (std::find(seen.begin(), seen.end(), leader.dtype) != seen.end()) continue;
    seen.push_back(leader.dtype);
    std::vector<const Row*> same;
    for (const Row& row : rows) {
      if (same_group(row, first) && row.dtype == leader.dtype) same.push_back(&row);
    }
    add_references(grid, same);
    for (const Row* row : same) {
      grid.add(cells(*row, name_of(row->variant.pairing), place_of(*row),
                     row->variant.tables == Tables::kReady ? "ready" : "fly",
                     {row->rotate, row->times_copy, row->times_scale}));
    }
  }
  const std::string title =
      fmt::format("{}, {}", measure::name_of(first.shape), count_of(first.threads, "thread"));
  return "\n" + paint(terminal, Style::kTitle, title) + "\n" + grid.text(terminal);
}

std::string_view word_of(Outcome outcome) {
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

/// The worst row of each target; where a target is missed, which one that is.
std::string targets_text(const std::vector<Row>& rows, const Terminal& terminal) {
  const std::vector<Target> targets = judge(rows, cpu_target());
  if (targets.empty()) return "";
  Grid grid({"target", "worst", "limit", ""});
  std::string missed;
  for (const Target& target : targets) {
    grid.add({target.name, target.measured, target.limit, std::string(word_of(target.outcome))});
    if (target.outcome == Outcome::kMissed) {
      missed += fmt::format("  {} in {}\n", target.measured, target.where);
    }
  }
  if (!missed.empty()) missed = "  Missed:\n" + missed;
  return "\n" + paint(terminal, Style::kTitle, "Targets") + "\n" + grid.text(terminal) + missed;
}

/// Something else was running, if half of the rows spread by more than this.
constexpr double kQuiet = 0.1;

std::string quietness_text(const std::vector<Row>& rows, const Terminal& terminal) {
  const auto loud = std::count_if(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.rotate.spread > kQuiet; });
  if (2 * loud <= static_cast<std::ptrdiff_t>(rows.size())) return "";
  return paint(terminal, Style::kWarning, "warning:") +
         " times spread widely: something else was running. Measure again.\n";
}

constexpr std::string_view kLegend =
    "Time of one call for q and k together. x copy, x scale: that time as a multiple of copying "
    "the same bytes with memcpy, and of multiplying them by a number (in place or not, as the row "
    "is). GB/s: read and written. "
    "place: in place, out of place into aligned memory, or (out+) 16 bytes past it. tables: cos "
    "and sin ready, or made on the fly.";

}  // namespace

std::string bench_json(const std::vector<Row>& rows) {
  std::string text =
      fmt::format("{{\n  \"machine\": {},\n", one_line(Json(measure::machine_name())));
  text += fmt::format("  \"version\": \"{}\",\n", ROTARY_VERSION_STRING);
  text += fmt::format("  \"target\": \"{}\",\n  \"rows\": [", cpu_target());
  std::string_view separator = "\n";
  for (const Row& row : rows) {
    text.append(separator).append("    ").append(one_line(row_json(row)));
    separator = ",\n";
  }
  return text + "\n  ]\n}\n";
}

std::string bench_text(const std::vector<Row>& rows, const Terminal& terminal) {
  std::string text = paint(terminal, Style::kTitle, "rotary " ROTARY_VERSION_STRING) + "  " +
                     printable(measure::machine_name()) + "\n";
  for (const std::string& line : wrap(kLegend, terminal.columns)) text += line + "\n";
  std::vector<const Row*> groups;
  for (const Row& row : rows) {
    const auto same = [&row](const Row* other) { return same_group(row, *other); };
    if (std::none_of(groups.begin(), groups.end(), same)) groups.push_back(&row);
  }
  for (const Row* first : groups) text += group_text(rows, *first, terminal);
  return text + targets_text(rows, terminal) + quietness_text(rows, terminal);
}

}  // namespace rotary::cli
