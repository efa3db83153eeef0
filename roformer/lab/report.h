// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// The report of a lab: report.md with tables and charts, from results.json alone.
///
///   void report_mine(const Results& results, Report& report) {
///     report.heading("Perplexity by length");
///     report.table(table_over(results, "perplexity", "length", {.digits = 2}));
///     report.chart("perplexity", chart_over(results, "perplexity", "length", {...}));
///     report.heading("Published");
///     report.text("ALiBi (2108.12409, table 2): 247 M parameters, WikiText-103 ...");
///     report.table(published);
///     report.text(rank_sentence(...));
///   }
///
/// Published figures stand in tables of their own, never in a column with ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "roformer/lab/chart.h"
#include "roformer/lab/results.h"

namespace rotary::roformer::lab {

struct Table {
  std::vector<std::string> head{};
  std::vector<std::vector<std::string>> rows{};
};

class Report {
 public:
  /// A section: "## text".
  void heading(std::string_view text);
  /// A paragraph.
  void text(std::string_view text);
  void table(const Table& table);
  /// NAME.svg and NAME.png beside the report; nothing for a chart without points.
  void chart(std::string name, Chart chart);

  const std::string& markdown() const noexcept { return markdown_; }
  const std::vector<std::pair<std::string, Chart>>& charts() const noexcept { return charts_; }

 private:
  std::string markdown_;
  std::vector<std::pair<std::string, Chart>> charts_;
};

/// Reads DIR/results.json; writes report.md and the charts, without `png` as SVG alone. Returns the
/// path of the report. Throws IoError.
std::filesystem::path write_report(const std::filesystem::path& folder, bool png = true);

// ---- Parts of reports ---------------------------------------------------------------------------

/// "21.53", with several seeds "21.53 ± 0.12".
std::string cell(const Summary& summary, int digits);

struct TableOptions {
  int digits = 2;
  /// Values are multiplied by this: 100 for a percentage.
  double factor = 1.0;
  /// Other coordinates of the rows.
  Coordinates at{};
  /// Variants in this order; empty: all with the metric.
  std::vector<std::string> variants{};
};
/// A row for each variant, a column for each value of the coordinate; the cell of a value that is
/// missing has its note.
Table table_over(const Results& results, std::string_view metric, const std::string& coordinate,
                 const TableOptions& options = {});
/// A row for each variant, a column for each metric {name, head, digits, factor}.
struct MetricColumn {
  std::string metric{};
  std::string head{};
  int digits = 2;
  double factor = 1.0;
  Coordinates at{};
  /// Of the variant, the same for every seed: shown without a spread.
  bool same_for_seeds = false;
  /// Followed by the metrics "min_" and "max_" of the same name, where there are any:
  /// "2162.0 (2100.3 to 2180.1)".
  bool with_range = false;
};
Table table_of(const Results& results, std::span<const MetricColumn> columns);

/// A line for each variant of the options, with the spread over seeds as its band.
std::vector<Series> series_over(const Results& results, std::string_view metric,
                                const std::string& coordinate, const TableOptions& options = {});

/// Spearman's rank correlation of those that both have, as a text: "0.80"; and their number.
struct RankCell {
  std::string correlation{};
  std::size_t in_common = 0;
};
RankCell rank_cell(const std::map<std::string, double>& ours,
                   const std::map<std::string, double>& published);
/// "Spearman's rank correlation with ALiBi's table at 2512: 0.80 (4 encodings).", of those that
/// both have; says so where there are fewer than three.
std::string rank_sentence(std::string_view what, const std::map<std::string, double>& ours,
                          const std::map<std::string, double>& published);

}  // namespace rotary::roformer::lab
