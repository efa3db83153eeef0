// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `base`.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "roformer/lab/labs.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/report.h"

namespace rotary::roformer::lab {
namespace {

/// Smallest bases of arXiv 2405.14591, table 2, for a head of 128.
const std::map<double, double>& published_bases() {
  static const std::map<double, double> kBases = {{1024, 4.3e3},  {2000, 1.6e4},  {4000, 2.7e4},
                                                  {8000, 8.4e4},  {16000, 3.1e5}, {32000, 6.4e5},
                                                  {64000, 2.1e6}, {128000, 7.8e6}};
  return kBases;
}

/// The rows of the variant "exact".
Results exact_only(const Results& results) {
  Results exact{.lab = results.lab, .settings = results.settings};
  std::ranges::copy_if(results.rows, std::back_inserter(exact.rows),
                       [](const Row& row) { return row.variant == "exact"; });
  return exact;
}

/// A row for each recipe or model of the setting `exact`, and context.
Table exact_rotations_table(const Results& results) {
  Table table{.head = {"recipe or model", "theta", "context", "critical dimension",
                       "first negative distance", "smallest base", "proved"},
              .rows = {}};
  for (const std::string& variant : variants_of(results, "theta")) {
    const auto shown = [&](const char* metric, const Coordinates& at, const char* format) {
      const auto found = summarize(results, variant, metric, at);
      return found ? fmt::format(fmt::runtime(format), found->mean)
                   : note_of(results, variant, metric, at);
    };
    for (const double context : values_of(results, "critical_dim", "context")) {
      const Coordinates at = {{"context", context}};
      const auto base = std::ranges::find_if(results.rows, [&](const Row& row) {
        return row.variant == variant && row.metric == "smallest_base" && row.at == at;
      });
      if (base == results.rows.end()) continue;
      table.rows.push_back(
          {variant.substr(std::string_view("exact ").size()), shown("theta", {}, "{:g}"),
           fmt::format("{:g}", context), shown("critical_dim", at, "{:.0f}"),
           shown("negative_distance", at, "{:.0f}"), shown("smallest_base", at, "{:.6g}"),
           base->has_value() ? base->note : "-"});
    }
  }
  return table;
}

/// A column for each head width, and the published one apart.
Table smallest_bases(const Results& all) {
  const Results results = exact_only(all);
  Table table{.head = {"context"}, .rows = {}};
  const std::vector<double> widths = values_of(results, "smallest_base", "head_dim");
  for (const double width : widths) {
    table.head.push_back(fmt::format("smallest base, head of {:g}", width));
    table.head.push_back(fmt::format("every base fails up to, head of {:g}", width));
  }
  table.head.emplace_back("published, head of 128");
  for (const double context : values_of(results, "smallest_base", "context")) {
    auto& row = table.rows.emplace_back();
    row.push_back(fmt::format("{:g}", context));
    for (const double width : widths) {
      const Coordinates at = {{"context", context}, {"head_dim", width}};
      for (const char* metric : {"smallest_base", "proved_below"}) {
        const auto found = summarize(results, "exact", metric, at);
        row.push_back(found ? fmt::format("{:.6g}", found->mean) : "-");
      }
    }
    const auto published = published_bases().find(context);
    row.push_back(published == published_bases().end() ? "-"
                                                       : fmt::format("{:g}", published->second));
  }
  return table;
}

std::vector<Mark> trained_mark(const Results& results) {
  return {{results.settings.at("train_length").as_double(), "trained"}};
}

}  // namespace

void report_base(const Results& results, Report& report) {
  report.text(fmt::format(
      "Decoders that differ in their rotation alone, trained on rows of which a part holds "
      "key-value pairs. Partial: the first part of a head is rotated with a ladder of its own; "
      "proportional: the fastest part of the whole head's ladder is kept. Retrieval is the share "
      "of values found for a key that is asked at the end of a row; a guess is right in 1 of {} "
      "cases, a guess among the row's values in 1 of {}.",
      kNumValues, 1 + kDistractors));
  report.heading("Perplexity by length");
  report.chart("perplexity", {.title = "Perplexity by length",
                              .x_label = "tokens of a row",
                              .y_label = "perplexity",
                              .x_scale = Scale::kLog,
                              .y_scale = Scale::kLog,
                              .series = series_over(results, "perplexity", "length"),
                              .marks = trained_mark(results)});
  report.table(table_over(results, "perplexity", "length"));
  report.heading("Retrieval by distance, %");
  const TableOptions percent{.digits = 1, .factor = 100.0};
  report.chart("retrieval", {.title = "Retrieval by distance",
                             .x_label = "distance in tokens",
                             .y_label = "found, %",
                             .x_scale = Scale::kLog,
                             .series = series_over(results, "retrieval", "distance", percent),
                             .marks = trained_mark(results)});
  report.table(table_over(results, "retrieval", "distance", percent));
  report.heading("Exact: the rotations above");
  report.text(
      "Critical dimension (arXiv 2310.05209): dims of pairs that make a full turn within the "
      "training length. First negative distance (arXiv 2405.14591): where the sum of cosines is "
      "first below 0, so that a query would prefer a random key to an equal one.");
  const std::vector<MetricColumn> columns = {
      {.metric = "critical_dim", .head = "critical dimension", .digits = 0},
      {.metric = "negative_distance", .head = "first negative distance", .digits = 0}};
  report.table(table_of(results, columns));
  report.chart("decay", {.title = "RoFormer's bound on scores by distance (section 3.4.3)",
                         .x_label = "distance in tokens",
                         .y_label = "bound",
                         .x_scale = Scale::kLog,
                         .series = series_over(results, "decay", "distance")});
  report.heading("Exact: the smallest base that serves a context");
  report.text(
      "Proved by interval arithmetic: the base has no negative sum of cosines at any distance up "
      "to the context, and every base up to the number beside it has one. The published values "
      "(arXiv 2405.14591, table 2) were found on a grid: where they are larger, they are not the "
      "smallest.");
  report.table(smallest_bases(results));
  if (const Table own = exact_rotations_table(results); !own.rows.empty()) {
    report.heading("Exact: recipes and models");
    report.text(
        "Of the setting `exact`; the smallest base is that of the recipe with another theta.");
    report.table(own);
  }
}

}  // namespace rotary::roformer::lab
