// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/lab/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "roformer/lab/lab.h"
#include "roformer/tasks/correlation.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Without what would end a cell.
std::string cell_text(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '|', '/');
  return text;
}

std::string value_cell(const Results& results, const std::string& variant, std::string_view metric,
                       const Coordinates& at, int digits, double factor) {
  if (std::optional<Summary> found = summarize(results, variant, metric, at)) {
    found->mean *= factor;
    found->spread *= factor;
    return cell(*found, digits);
  }
  const std::string note = note_of(results, variant, metric, at);
  return note.empty() ? "-" : note;
}

/// " (2100.3 to 2180.1)"; empty without these metrics.
std::string range_of(const Results& results, const std::string& variant,
                     const MetricColumn& column) {
  const auto low = summarize(results, variant, "min_" + column.metric, column.at);
  const auto high = summarize(results, variant, "max_" + column.metric, column.at);
  if (!low || !high) return {};
  return fmt::format(" ({:.{}f} to {:.{}f})", low->mean * column.factor, column.digits,
                     high->mean * column.factor, column.digits);
}

std::vector<std::string> chosen_variants(const Results& results, std::string_view metric,
                                         const TableOptions& options) {
  const std::vector<std::string> all = variants_of(results, metric);
  if (options.variants.empty()) return all;
  std::vector<std::string> chosen;
  for (const std::string& variant : options.variants) {
    if (std::ranges::find(all, variant) != all.end()) chosen.push_back(variant);
  }
  return chosen;
}

bool is_empty(const Chart& chart) {
  return std::ranges::all_of(chart.series,
                             [](const Series& series) { return series.points.empty(); });
}

void report_failures(const Results& results, Report& report) {
  Table failed{.head = {"variant", "seed", "failed because"}, .rows = {}};
  for (const Row& row : results.rows) {
    if (row.metric != kFailed) continue;
    failed.rows.push_back({row.variant, std::to_string(row.seed), row.note});
  }
  if (failed.rows.empty()) return;
  report.heading("Failed runs");
  report.table(failed);
}

/// How many seeds have rows: of the variant itself, or of those that are made from it, such as
/// "index/rope" and "yarn x4".
std::size_t seeds_with_rows(const Results& results, const std::string& name) {
  std::set<std::int64_t> seeds;
  for (const Row& row : results.rows) {
    if (row.variant == name || row.variant.starts_with(name + "/") ||
        row.variant.starts_with(name + " x")) {
      seeds.insert(row.seed);
    }
  }
  return seeds.size();
}

/// Units without rows, of those that the lists of the settings name and of the lab's others.
void report_missing(const LabInfo& info, const Results& results, Report& report) {
  Table missing{.head = {"variant", "seeds with results", "seeds of the settings"}, .rows = {}};
  for (const auto& [key, list] : results.settings.members()) {
    if (!list.is_array()) continue;
    for (const Json& entry : list.elements()) {
      const Json* name = entry.is_object() ? entry.find("name") : nullptr;
      if (name == nullptr || !name->is_string()) continue;
      const Json* seeds = entry.find("seeds");
      const auto wanted =
          static_cast<std::size_t>(seeds != nullptr && seeds->is_int64() ? seeds->as_int64() : 1);
      const std::size_t found = seeds_with_rows(results, name->as_string());
      if (found >= wanted) continue;
      missing.rows.push_back({name->as_string(), std::to_string(found), std::to_string(wanted)});
    }
  }
  if (info.missing != nullptr) {
    for (const std::string& variant : info.missing(results)) {
      missing.rows.push_back({variant, "0", "1"});
    }
  }
  if (missing.rows.empty()) return;
  report.heading("Not run yet");
  report.text("The command that made these results runs them, too.");
  report.table(missing);
}

void report_source(const Results& results, Report& report) {
  report.heading("Settings");
  report.text(fmt::format("Machine: {}. Commit: {}. Every number is in results.json.",
                          results.machine, results.commit));
  report.text("```json\n" + results.settings.dump_lines() + "```");
}

}  // namespace

// ---- Report -------------------------------------------------------------------------------------

void Report::heading(std::string_view text) { markdown_ += fmt::format("\n## {}\n", text); }

void Report::text(std::string_view text) { markdown_ += fmt::format("\n{}\n", text); }

void Report::table(const Table& table) {
  if (table.rows.empty()) return;
  const auto line = [this](const std::vector<std::string>& cells) {
    markdown_ += "|";
    for (const std::string& one : cells) markdown_ += fmt::format(" {} |", cell_text(one));
    markdown_ += "\n";
  };
  markdown_ += "\n";
  line(table.head);
  line(std::vector<std::string>(table.head.size(), "---"));
  for (const auto& row : table.rows) line(row);
}

void Report::chart(std::string name, Chart chart) {
  if (is_empty(chart)) return;
  if (can_draw()) markdown_ += fmt::format("\n![{}]({}.svg)\n", chart.title, name);
  charts_.emplace_back(std::move(name), std::move(chart));
}

std::filesystem::path write_report(const std::filesystem::path& folder, bool png) {
  const Results results = read_results(folder / "results.json");
  const LabInfo& info = find_lab(results.lab);
  Report report;
  info.report(results, report);
  report_failures(results, report);
  report_missing(info, results, report);
  report_source(results, report);
  if (can_draw()) {
    for (const auto& [name, chart] : report.charts()) write_chart(chart, folder / name, png);
  }
  const std::filesystem::path path = folder / "report.md";
  write_whole_file(path, fmt::format("# {}: {}\n{}", info.name, info.about, report.markdown()));
  return path;
}

// ---- Parts of reports ---------------------------------------------------------------------------

std::string cell(const Summary& summary, int digits) {
  return summary.count > 1
             ? fmt::format("{:.{}f} ± {:.{}f}", summary.mean, digits, summary.spread, digits)
             : fmt::format("{:.{}f}", summary.mean, digits);
}

Table table_over(const Results& results, std::string_view metric, const std::string& coordinate,
                 const TableOptions& options) {
  Table table{.head = {"variant"}, .rows = {}};
  const std::vector<double> values = values_of(results, metric, coordinate);
  for (const double value : values) {
    table.head.push_back(fmt::format("{} {}", coordinate, tick_label(value)));
  }
  for (const std::string& variant : chosen_variants(results, metric, options)) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(variant);
    for (const double value : values) {
      Coordinates at = options.at;
      at[coordinate] = value;
      row.push_back(value_cell(results, variant, metric, at, options.digits, options.factor));
    }
  }
  return table;
}

Table table_of(const Results& results, std::span<const MetricColumn> columns) {
  Table table{.head = {"variant"}, .rows = {}};
  for (const MetricColumn& column : columns) table.head.push_back(column.head);
  for (const std::string& variant : variants_of(results)) {
    std::vector<std::string> row = {variant};
    for (const MetricColumn& column : columns) {
      std::string shown =
          value_cell(results, variant, column.metric, column.at, column.digits, column.factor);
      if (column.same_for_seeds) shown = shown.substr(0, shown.find(" ± "));
      if (column.with_range) shown += range_of(results, variant, column);
      row.push_back(std::move(shown));
    }
    const bool empty =
        std::all_of(row.begin() + 1, row.end(), [](const std::string& one) { return one == "-"; });
    if (!empty) table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<Series> series_over(const Results& results, std::string_view metric,
                                const std::string& coordinate, const TableOptions& options) {
  std::vector<Series> all;
  for (const std::string& variant : chosen_variants(results, metric, options)) {
    Series series{.label = variant};
    for (const double value : values_of(results, metric, coordinate)) {
      Coordinates at = options.at;
      at[coordinate] = value;
      if (const auto found = summarize(results, variant, metric, at)) {
        series.points.push_back({.x = value,
                                 .y = found->mean * options.factor,
                                 .spread = found->spread * options.factor});
      }
    }
    all.push_back(std::move(series));
  }
  return all;
}

RankCell rank_cell(const std::map<std::string, double>& ours,
                   const std::map<std::string, double>& published) {
  std::vector<double> x;
  std::vector<double> y;
  for (const auto& [name, value] : ours) {
    const auto other = published.find(name);
    if (other == published.end()) continue;
    x.push_back(value);
    y.push_back(other->second);
  }
  return {.correlation = x.size() < 3 ? "too few" : fmt::format("{:.2f}", spearman(x, y)),
          .in_common = x.size()};
}

std::string rank_sentence(std::string_view what, const std::map<std::string, double>& ours,
                          const std::map<std::string, double>& published) {
  const RankCell cell = rank_cell(ours, published);
  if (cell.in_common < 3) {
    return fmt::format("Rank correlation with {}: too few in common ({}).", what, cell.in_common);
  }
  return fmt::format("Spearman's rank correlation with {}: {} ({} in common).", what,
                     cell.correlation, cell.in_common);
}

}  // namespace rotary::roformer::lab
