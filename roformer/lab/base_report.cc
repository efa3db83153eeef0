// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `base`.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <utility>

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

/// The variant without the prefix "exact ".
std::string name_of_exact(const std::string& variant) {
  return variant.substr(std::string_view("exact ").size());
}

/// One row for each pair of a recipe or model of the setting `exact` and a context.
Table exact_rotations_table(const Results& results) {
  Table table{
      .head = {"recipe or model", "theta", "context", "critical dimension",
               "first negative distance", "smallest base", "proved", "decay at the context"},
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
          {name_of_exact(variant), shown("theta", {}, "{:g}"), fmt::format("{:g}", context),
           shown("critical_dim", at, "{:.0f}"), shown("negative_distance", at, "{:.0f}"),
           shown("smallest_base", at, "{:.6g}"), base->has_value() ? base->note : "-",
           shown("decay", {{"context", context}, {"distance", context}}, "{:.3g}")});
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

/// Variants that were trained, of those with a metric.
std::vector<std::string> trained_variants(const Results& results, std::string_view metric) {
  std::vector<std::string> variants = variants_of(results, metric);
  std::erase_if(variants, [](const std::string& name) { return name.starts_with("exact"); });
  return variants;
}

/// The decay of heads by their width, and of recipes and models at their longest context.
Chart exact_decay_chart(const Results& results) {
  Chart chart{.title = "RoFormer's bound on scores by distance: head widths, recipes, models",
              .x_label = "distance in tokens",
              .y_label = "bound",
              .x_scale = Scale::kLog};
  const auto add = [&](const std::string& variant, const std::string& label,
                       const Coordinates& at) {
    const TableOptions of_one{.at = at, .variants = {variant}};
    for (Series& series : series_over(results, "decay", "distance", of_one)) {
      if (series.points.empty()) continue;
      series.label = label;
      chart.series.push_back(std::move(series));
    }
  };
  for (const double width : values_of(results, "decay", "head_dim")) {
    add("exact", fmt::format("head of {:g}", width), {{"head_dim", width}});
  }
  for (const std::string& variant : variants_of(results, "theta")) {
    double longest = 0.0;
    for (const Row& row : results.rows) {
      const auto context = row.at.find("context");
      if (row.variant == variant && context != row.at.end()) {
        longest = std::max(longest, context->second);
      }
    }
    std::string label = name_of_exact(variant);
    constexpr std::string_view kFile = "/config.json";
    if (const auto file = label.find(kFile); file != std::string::npos) {
      label.erase(file, kFile.size());
    }
    add(variant, label, {{"context", longest}});
  }
  return chart;
}

/// A model of Round and Round (arXiv 2410.06205), and the variant that rotates as it does.
struct PublishedRotation {
  const char* ours;
  const char* theirs;
  double wiki;
  double flan;
};
constexpr std::array<PublishedRotation, 7> kPublishedRotations = {
    {{"none", "NoPE", 4.8594, 6.6429},
     {"base 10000", "RoPE, base 10,000", 4.4627, 6.4429},
     {"", "RoPE, base 500,000", 4.4485, 6.4593},
     {"proportional 0.75", "0.75-RoPE", 4.4414, 6.4422},
     {"", "0.75-RoPE, reversed", 4.4592, 6.4683},
     {"partial 0.75", "0.75-RoPE, partial", 4.4537, 6.4562},
     {"proportional 0.25", "0.25-RoPE", 4.5302, 6.5111}}};

void add_published_rotations(const Results& results, Report& report) {
  report.heading("Published");
  report.text(
      "Round and Round We Go (arXiv 2410.06205): validation perplexity of Gemma 2B, trained from "
      "scratch with rows of 8k. Their p-RoPE keeps the fastest part of the ladder, as proportional "
      "does here; reversed keeps the slowest. Their model is much larger and its rows are "
      "longer, while part of the rows here hold key-value pairs: only the order can be compared.");
  Table table{.head = {"model, published", "variant here", "Wiki", "FlanV2"}, .rows = {}};
  std::map<std::string, double> wiki;
  std::map<std::string, double> flan;
  std::map<std::string, double> ours;
  const double trained = results.settings.at("train_length").as_double();
  for (const PublishedRotation& one : kPublishedRotations) {
    const std::string name = one.ours;
    table.rows.push_back({one.theirs, name.empty() ? "-" : name, fmt::format("{:.4f}", one.wiki),
                          fmt::format("{:.4f}", one.flan)});
    if (name.empty()) continue;
    wiki[name] = one.wiki;
    flan[name] = one.flan;
    const auto found = summarize(results, name, "perplexity", {{"length", trained}});
    if (found) ours[name] = found->mean;
  }
  report.table(table);
  report.text(fmt::format("Spearman's rank correlation of ours in rows of {:g} tokens with theirs:",
                          trained));
  Table ranks{.head = {"theirs on", "rank correlation", "variants in common"}, .rows = {}};
  for (const auto& [text, theirs] : {std::pair("Wiki", &wiki), std::pair("FlanV2", &flan)}) {
    const RankCell cell = rank_cell(ours, *theirs);
    ranks.rows.push_back({text, cell.correlation, std::to_string(cell.in_common)});
  }
  report.table(ranks);
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
      "first below 0, so that a query would prefer a random key to an equal one. Pairs of a "
      "proportional rotation that do not rotate have the frequency 0, and count as cos = 1 in that "
      "sum; those of a partial one are no part of it.");
  const std::vector<MetricColumn> columns = {
      {.metric = "critical_dim", .head = "critical dimension", .digits = 0},
      {.metric = "negative_distance", .head = "first negative distance", .digits = 0}};
  report.table(table_of(results, columns));
  report.chart("decay", {.title = "RoFormer's bound on scores by distance (section 3.4.3)",
                         .x_label = "distance in tokens",
                         .y_label = "bound",
                         .x_scale = Scale::kLog,
                         .series = series_over(results, "decay", "distance",
                                               {.variants = trained_variants(results, "decay")})});
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
        "Of the setting `exact`; the smallest base is that of the recipe with another theta. An "
        "interval proof shows that every base below it fails; a grid proof, for recipes whose "
        "frequencies are not fixed multiples of theta^(-2i/d) (YaRN, Llama 3 and others), that "
        "every base 1.01^k below it does. Decay: RoFormer's bound on scores at that distance.");
    report.table(own);
  }
  if (Chart decay = exact_decay_chart(results); !decay.series.empty()) {
    report.heading("Exact: decay by head width, recipe and model");
    report.text(
        "RoFormer's bound on scores by distance (section 3.4.3), a mean over the pairs of a head: "
        "of heads with base 10,000, and of recipes and models at the longest of their contexts.");
    report.chart("exact_decay", std::move(decay));
  }
  add_published_rotations(results, report);
}

}  // namespace rotary::roformer::lab
