// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `extend`.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "roformer/lab/labs.h"
#include "roformer/lab/needle.h"
#include "roformer/lab/report.h"

namespace rotary::roformer::lab {
namespace {

/// The variants of one factor, "yarn x4".
std::vector<std::string> variants_with(const Results& results, double factor) {
  std::vector<std::string> chosen;
  for (const std::string& variant : variants_of(results)) {
    if (variant.ends_with(fmt::format(" x{:g}", factor))) chosen.push_back(variant);
  }
  return chosen;
}

void add_tables(const Results& results, double factor, bool tuned, Report& report) {
  const double after = tuned ? 1.0 : 0.0;
  const double trained = results.settings.at("train_length").as_double();
  const std::string when = tuned ? "after tuning" : "before tuning";
  const std::string suffix = fmt::format("x{:g}_{}", factor, tuned ? "after" : "before");
  const std::vector<std::string> variants = variants_with(results, factor);
  const TableOptions by_length{.digits = 2, .at = {{"tuned", after}}, .variants = variants};
  report.heading(fmt::format("{:g} times the context, {}", factor, when));
  report.text("Perplexity by length:");
  report.chart("perplexity_" + suffix,
               {.title = fmt::format("Perplexity, {:g} times the context, {}", factor, when),
                .x_label = "tokens of a row",
                .y_label = "perplexity",
                .x_scale = Scale::kLog,
                .y_scale = Scale::kLog,
                .series = series_over(results, "perplexity", "length", by_length),
                .marks = {{trained, "trained"}, {factor * trained, "stretched"}}});
  report.table(table_over(results, "perplexity", "length", by_length));
  report.text(fmt::format("Retrieval by depth in rows of {:g} tokens, %:", factor * trained));
  const TableOptions by_depth{
      .digits = 1, .factor = 100.0, .at = {{"tuned", after}}, .variants = variants};
  report.chart("retrieval_" + suffix,
               {.title = fmt::format("Retrieval, {:g} times the context, {}", factor, when),
                .x_label = "depth of the pair in the row",
                .y_label = "found, %",
                .series = series_over(results, "retrieval", "depth", by_depth)});
  report.table(table_over(results, "retrieval", "depth", by_depth));
}

/// A row for each recipe; for each factor, before and after tuning, what `shown` gives.
Table stretched_table(const Results& results,
                      const std::function<std::string(const std::string& variant, double factor,
                                                      double tuned)>& shown) {
  Table table{.head = {"recipe"}, .rows = {}};
  for (const internal::Json& factor : results.settings.at("factors").elements()) {
    for (const char* when : {"before", "after"}) {
      table.head.push_back(fmt::format("x{:g}, {}", factor.as_double(), when));
    }
  }
  for (const internal::Json& recipe : results.settings.at("recipes").elements()) {
    auto& row = table.rows.emplace_back();
    row.push_back(recipe.at("name").as_string());
    for (const internal::Json& factor : results.settings.at("factors").elements()) {
      const std::string variant = fmt::format("{} x{:g}", row.front(), factor.as_double());
      for (const double tuned : {0.0, 1.0}) {
        row.push_back(shown(variant, factor.as_double(), tuned));
      }
    }
  }
  return table;
}

/// All factors in two tables: at the stretched length, before and after tuning.
void add_overview(const Results& results, Report& report) {
  const double trained = results.settings.at("train_length").as_double();
  report.heading("Perplexity at the stretched length");
  report.table(stretched_table(
      results, [&](const std::string& variant, double factor, double tuned) -> std::string {
        const auto found = summarize(results, variant, "perplexity",
                                     {{"length", factor * trained}, {"tuned", tuned}});
        return found ? cell(*found, 2) : "-";
      }));
  report.heading("Retrieval at the stretched length, mean of all depths and least, %");
  report.table(stretched_table(
      results, [&](const std::string& variant, double /*factor*/, double tuned) -> std::string {
        double sum = 0.0;
        double least = 1.0;
        double count = 0.0;
        for (const double depth : values_of(results, "retrieval", "depth")) {
          const auto found =
              summarize(results, variant, "retrieval", {{"depth", depth}, {"tuned", tuned}});
          if (!found) return "-";
          sum += found->mean;
          least = std::min(least, found->mean);
          count += 1.0;
        }
        return count == 0.0 ? "-"
                            : fmt::format("{:.0f} ({:.0f})", 100.0 * sum / count, 100.0 * least);
      }));
}

/// Perplexity before tuning at 2 and 4 times the trained context, LongRoPE (arXiv 2402.13753),
/// Proof-pile.
struct PublishedContext {
  double factor;
  const char* context;
  std::map<std::string, double> perplexity;
};
const std::vector<PublishedContext>& published_untuned() {
  static const std::vector<PublishedContext> kContexts = {
      {2.0, "8k", {{"linear", 3.65}, {"dynamic", 3.50}, {"yarn", 3.49}, {"longrope", 3.45}}},
      {4.0, "16k", {{"linear", 4.93}, {"dynamic", 3.87}, {"yarn", 3.25}, {"longrope", 3.13}}}};
  return kContexts;
}

void add_published(const Results& results, Report& report) {
  report.heading("Published");
  report.text(
      "LongRoPE (arXiv 2402.13753): LLaMA2-7B stretched without tuning, perplexity on Proof-pile "
      "at 8k and 16k (2 and 4 times the trained 4k). Their model is 300 times larger and its text "
      "is mathematics: only the order of the recipes can be compared.");
  Table published{.head = {"recipe, published"}, .rows = {}};
  for (const PublishedContext& one : published_untuned()) published.head.emplace_back(one.context);
  for (const auto& [recipe, theirs] :
       {std::pair("linear", "PI (linear)"), std::pair("dynamic", "dynamic NTK"),
        std::pair("yarn", "YaRN"), std::pair("longrope", "LongRoPE, searched")}) {
    auto& row = published.rows.emplace_back();
    row.emplace_back(theirs);
    for (const PublishedContext& one : published_untuned()) {
      row.push_back(fmt::format("{:.2f}", one.perplexity.at(recipe)));
    }
  }
  report.table(published);
  report.text("Spearman's rank correlation with theirs, before tuning:");
  Table ranks{.head = {"ours at", "theirs at", "rank correlation", "recipes in common"},
              .rows = {}};
  const double trained = results.settings.at("train_length").as_double();
  for (const PublishedContext& one : published_untuned()) {
    std::map<std::string, double> ours;
    for (const auto& [recipe, perplexity] : one.perplexity) {
      const auto found =
          summarize(results, fmt::format("{} x{:g}", recipe, one.factor), "perplexity",
                    {{"length", one.factor * trained}, {"tuned", 0.0}});
      if (found) ours[recipe] = found->mean;
    }
    const RankCell cell = rank_cell(ours, one.perplexity);
    ranks.rows.push_back({fmt::format("{:g} ({:g} times)", one.factor * trained, one.factor),
                          fmt::format("{} ({:g} times)", one.context, one.factor), cell.correlation,
                          std::to_string(cell.in_common)});
  }
  report.table(ranks);
}

}  // namespace

void report_extend(const Results& results, Report& report) {
  report.text(fmt::format(
      "One decoder, trained on short rows of which a part holds key-value pairs, with its context "
      "stretched by each recipe: before, and after tuning at the new length for a further {:g} % "
      "of the steps. All recipes begin with the same weights. A guess of the value is right in 1 "
      "of {} cases, a guess among the row's values in 1 of {}.",
      100.0 * results.settings.at("tune_share").as_double(), kNumValues, 1 + kDistractors));
  add_overview(results, report);
  for (const internal::Json& factor : results.settings.at("factors").elements()) {
    for (const bool tuned : {false, true}) {
      add_tables(results, factor.as_double(), tuned, report);
    }
  }
  add_published(results, report);
}

}  // namespace rotary::roformer::lab
