// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `length`, beside ALiBi's and Kazemnejad's tables.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "roformer/lab/cost.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/report.h"

namespace rotary::roformer::lab {
namespace {

/// A row of a published table: our name, theirs, and perplexities by length.
struct PublishedRow {
  std::string ours;
  std::string theirs;
  std::vector<double> values;
};
struct PublishedTable {
  std::string heading;
  std::string source;
  /// The length of their training, and those of the columns.
  double trained;
  std::vector<double> lengths;
  std::vector<PublishedRow> rows;
};

const PublishedTable& alibi_table() {
  static const PublishedTable kTable = {
      "Published: ALiBi",
      "ALiBi (arXiv 2108.12409): perplexity on WikiText-103's validation set, 247 M parameters, "
      "trained at 512",
      512,
      {512, 1512, 2512, 4512, 8512},
      {{"sinusoidal", "sinusoidal", {20.05, 76.23, 132.41, 209.37, 305.65}},
       {"rope", "rotary", {20.07, 25.99, 31.58, 39.15, 54.98}},
       {"t5", "T5 bias", {19.65, 18.91, 20.41, 25.91, 43.08}},
       {"alibi", "ALiBi", {19.73, 18.52, 18.41, 18.41, 18.34}}}};
  return kTable;
}

const PublishedTable& kazemnejad_table() {
  static const PublishedTable kTable = {
      "Published: Kazemnejad et al.",
      "Kazemnejad et al. (arXiv 2305.19466, appendix F): perplexity on code, 1.3 B parameters, "
      "trained at 1024",
      1024,
      {512, 1024, 1200, 1400, 1800, 2560},
      {{"none", "NoPE", {2.850, 2.666, 2.620, 2.504, 41.19, 536.2}},
       {"alibi", "ALiBi", {2.830, 2.735, 2.742, 2.741, 13.81, 150.3}},
       {"rope", "Rotary", {2.774, 2.607, 3.323, 156.3, 674.5, 760.1}}}};
  return kTable;
}

/// The published length that is nearest to `ratio` times the training length, by index.
std::size_t nearest_column(const PublishedTable& table, double ratio) {
  std::size_t best = 0;
  const auto distance = [&](std::size_t i) {
    return std::abs(std::log(table.lengths[i] / table.trained / ratio));
  };
  for (std::size_t i = 1; i < table.lengths.size(); ++i) {
    if (distance(i) < distance(best)) best = i;
  }
  return best;
}

/// Their table, and how far their order is ours at each length beyond training.
void add_published(const PublishedTable& published, const Results& results, Report& report) {
  report.heading(published.heading);
  report.text(published.source + ":");
  Table table{.head = {"encoding, published"}, .rows = {}};
  for (const double length : published.lengths) table.head.push_back(tick_label(length));
  for (const PublishedRow& row : published.rows) {
    auto& cells = table.rows.emplace_back();
    cells.push_back(row.theirs);
    for (const double value : row.values) cells.push_back(fmt::format("{:g}", value));
  }
  report.table(table);
  report.text("Spearman's rank correlation with their order:");
  Table ranks{.head = {"ours at", "theirs at", "rank correlation", "encodings in common"},
              .rows = {}};
  const double trained = results.settings.at("train_length").as_double();
  for (const double length : values_of(results, "perplexity", "length")) {
    if (length <= trained) continue;
    std::map<std::string, double> ours;
    std::map<std::string, double> theirs;
    const std::size_t column = nearest_column(published, length / trained);
    for (const PublishedRow& row : published.rows) {
      theirs[row.ours] = row.values[column];
      const auto mean = summarize(results, row.ours, "perplexity", {{"length", length}});
      if (mean) ours[row.ours] = mean->mean;
    }
    const RankCell cell = rank_cell(ours, theirs);
    ranks.rows.push_back(
        {fmt::format("{:g} ({:.3g} times the trained length)", length, length / trained),
         fmt::format("{:g} ({:.3g} times)", published.lengths[column],
                     published.lengths[column] / published.trained),
         cell.correlation, std::to_string(cell.in_common)});
  }
  report.table(ranks);
}

Chart length_chart(const Results& results, const std::string& metric, const std::string& title,
                   const std::string& y_label, const TableOptions& options) {
  Chart chart{.title = title,
              .x_label = "tokens of a row",
              .y_label = y_label,
              .x_scale = Scale::kLog,
              .series = series_over(results, metric, "length", options),
              .marks = {{results.settings.at("train_length").as_double(), "trained"}}};
  return chart;
}

/// The rows of the units that measure cost, with the encodings as variants.
Results cost_rows(const Results& results) {
  Results cost{.lab = results.lab, .settings = results.settings};
  for (Row row : results.rows) {
    if (!row.variant.starts_with(kCostPrefix)) continue;
    row.variant.erase(0, kCostPrefix.size());
    cost.rows.push_back(std::move(row));
  }
  return cost;
}

/// Perplexity at each learning rate, and at the one that is best on other texts.
void report_rates(const Results& results, Report& report) {
  const std::vector<double> rates = values_of(results, "rate_perplexity", "learning_rate");
  if (rates.empty()) return;
  report.heading("Learning rates");
  report.text(fmt::format(
      "Perplexity in rows of the training length after {} steps at each learning rate, on one half "
      "of the held-out texts. The best rate is the one with the lowest perplexity on the other "
      "half.",
      results.settings.at("steps").dump()));
  Table table{.head = {"encoding"}, .rows = {}};
  for (const double rate : rates) table.head.push_back(fmt::format("rate {:g}", rate));
  table.head.insert(table.head.end(), {"best rate", "perplexity at the best rate"});
  const double usual = results.settings.at("learning_rate").as_double();
  std::map<std::string, double> at_usual;
  std::map<std::string, double> at_best;
  for (const std::string& variant : variants_of(results, "rate_perplexity")) {
    const std::string name = variant.substr(kRatePrefix.size());
    auto& row = table.rows.emplace_back();
    row.push_back(name);
    double best_rate = 0.0;
    double lowest = INFINITY;
    for (const double rate : rates) {
      const Coordinates at = {{"learning_rate", rate}};
      const auto judged = summarize(results, variant, "rate_perplexity", at);
      const auto choice = summarize(results, variant, "choice_perplexity", at);
      const std::string note = note_of(results, variant, "rate_perplexity", at);
      row.push_back(judged ? cell(*judged, 1) : note.empty() ? "-" : note);
      if (judged && rate == usual) at_usual[name] = judged->mean;
      if (!judged || !choice || choice->mean >= lowest) continue;
      lowest = choice->mean;
      best_rate = rate;
      at_best[name] = judged->mean;
    }
    const auto best = at_best.find(name);
    row.push_back(best == at_best.end() ? "-" : fmt::format("{:g}", best_rate));
    row.push_back(best == at_best.end() ? "-" : fmt::format("{:.1f}", best->second));
  }
  report.table(table);
  if (at_usual.empty()) return;
  report.text(rank_sentence(
      fmt::format("the order at {:g}, the rate of this lab, where each has its best rate", usual),
      at_best, at_usual));
}

/// Of sliding rows: results from before they were judged have none of them.
void report_sliding_encoders(const Results& results, const TableOptions& percent, Report& report) {
  constexpr const char* kMetric = "sliding_masked_accuracy";
  const std::vector<std::string> judged = variants_of(results, kMetric);
  std::string unjudged;
  for (const std::string& variant : variants_of(results, "masked_accuracy")) {
    if (std::ranges::find(judged, variant) != judged.end()) continue;
    unjudged += (unjudged.empty() ? "" : ", ") + variant;
  }
  if (judged.empty() && unjudged.empty()) return;
  report.heading("Masked accuracy of the encoders, sliding rows, %");
  report.text(
      "Rows overlap by half; a token counts in the row that has it in its middle half, with a "
      "quarter of the row or more on each side, except at the ends of a text.");
  report.chart(kMetric,
               length_chart(results, kMetric, "Masked accuracy, sliding rows", "%", percent));
  report.table(table_over(results, kMetric, "length", percent));
  if (!unjudged.empty()) {
    report.text(fmt::format(
        "Not judged yet on sliding rows: {}. `--rerun --variants 'encoder *'` runs them again.",
        unjudged));
  }
}

/// A limit that keeps the flat curves apart: three times the best value. Larger ones are drawn at
/// it.
double limit_of(const std::vector<Series>& series) {
  double best = INFINITY;
  for (const Series& one : series) {
    for (const Point& point : one.points) best = std::min(best, point.y);
  }
  return std::isfinite(best) ? 3.0 * best : 0.0;
}

}  // namespace

void report_length(const Results& results, Report& report) {
  report.text(
      "Each model is trained on rows of the training length and judged on held-out texts cut into "
      "shorter and longer rows. Every length predicts the same tokens; only their context differs. "
      "Disjoint rows follow one another; sliding rows overlap by half, and only tokens with at "
      "least half a row of context count. ± is the standard deviation over seeds.");
  for (const auto& [metric, title] :
       {std::pair("perplexity", "Perplexity, disjoint rows"),
        std::pair("sliding_perplexity", "Perplexity, sliding rows")}) {
    report.heading(title);
    Chart chart = length_chart(results, metric, title, "perplexity (cut at the upper edge)", {});
    chart.y_scale = Scale::kLog;
    chart.y_limit = limit_of(chart.series);
    report.chart(metric, std::move(chart));
    report.table(table_over(results, metric, "length"));
  }
  const TableOptions percent{.digits = 1, .factor = 100.0};
  report.heading("Masked accuracy of the encoders, %");
  report.chart("masked_accuracy",
               length_chart(results, "masked_accuracy", "Masked accuracy", "%", percent));
  report.table(table_over(results, "masked_accuracy", "length", percent));
  report_sliding_encoders(results, percent, report);

  report_rates(results, report);

  report.heading("Cost");
  report.text(
      "Of a few steps, with nothing else on the machine; memory is the peak of the allocator. "
      "Speeds with a range are medians, with the least and the largest of five measurements; "
      "others were measured once.");
  const std::vector<MetricColumn> columns = {
      {.metric = "parameters", .head = "parameters, M", .digits = 2, .factor = 1e-6},
      {.metric = "train_tokens_per_second",
       .head = "training, k tokens/s",
       .digits = 1,
       .factor = 1e-3,
       .with_range = true},
      {.metric = "train_peak_bytes", .head = "training, GB", .digits = 2, .factor = 1e-9},
      {.metric = "decode_tokens_per_second",
       .head = "decoding, k tokens/s",
       .digits = 2,
       .factor = 1e-3,
       .with_range = true},
      {.metric = "decode_peak_bytes", .head = "decoding, GB", .digits = 2, .factor = 1e-9}};
  report.table(table_of(cost_rows(results), columns));

  report.heading("Published");
  report.text(
      "Their models are larger, were trained for far longer on other texts, and have other "
      "vocabularies: perplexities cannot be compared, only the order of the encodings can.");
  add_published(alibi_table(), results, report);
  add_published(kazemnejad_table(), results, report);
}

}  // namespace rotary::roformer::lab
