// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `tasks`.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "roformer/lab/labs.h"
#include "roformer/lab/report.h"
#include "roformer/lab/tasks_settings.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

struct PublishedRank {
  const char* variant;
  double value;
};
/// Mean reciprocal rank over ten tasks (Kazemnejad et al. 2023, arXiv:2305.19466).
constexpr std::array<PublishedRank, 5> kPublishedRanks = {
    {{"none", 0.69}, {"t5", 0.55}, {"alibi", 0.50}, {"rope", 0.33}, {"sinusoidal", 0.22}}};

struct PublishedRoper {
  const char* task;
  const char* rope;
  const char* roper;
  const char* metric;
};
/// Harik and Jayasiri 2022, research.labml.ai/RoPER.html.
constexpr std::array<PublishedRoper, 3> kPublishedRoper = {
    {{"addition", "124.33", "126.33", "solved of 128"},
     {"index", "62.00", "96.11", "solved of 128"},
     {"prefix", "0.3269", "0.3191", "loss"}}};

std::vector<std::string> task_names(const Results& results) {
  std::vector<std::string> names;
  if (const Json* tasks = results.settings.find("tasks")) {
    for (const Json& name : tasks->elements()) names.push_back(name.as_string());
  }
  return names;
}

double train_length_of(const Results& results) {
  const Json* length = results.settings.find("train_length");
  return length != nullptr ? length->as_double() : 0.0;
}

using MetricOf = std::string (*)(std::string_view task);

/// Mean of a metric over tasks and the lengths that count; none if a number is missing.
template <typename Counts>
std::optional<double> mean_over_tasks(const Results& results, const std::string& variant,
                                      MetricOf metric_of, Counts counts) {
  double sum = 0.0;
  double cells = 0.0;
  for (const std::string& task : task_names(results)) {
    for (const double length : values_of(results, metric_of(task), "length")) {
      if (!counts(length)) continue;
      const auto found = summarize(results, variant, metric_of(task), {{"length", length}});
      if (!found) return std::nullopt;
      sum += found->mean;
      cells += 1.0;
    }
  }
  if (cells == 0.0) return std::nullopt;
  return sum / cells;
}

std::vector<std::string> encodings_of(const Results& results) {
  const std::vector<std::string> tasks = task_names(results);
  return tasks.empty() ? std::vector<std::string>{}
                       : variants_of(results, exact_metric(tasks.front()));
}

/// Reciprocal ranks of the variants, by value, the largest first; equal ones share the mean of
/// their ranks.
void add_reciprocal_ranks(const std::map<std::string, double>& values,
                          std::map<std::string, double>& sums) {
  for (const auto& [variant, value] : values) {
    double better = 0.0;
    double equal = 0.0;
    for (const auto& [other, theirs] : values) {
      if (theirs > value) better += 1.0;
      if (theirs == value) equal += 1.0;
    }
    sums[variant] += 1.0 / (better + (equal + 1.0) / 2.0);
  }
}

/// Mean reciprocal rank among the variants, over tasks and lengths beyond training.
std::map<std::string, double> reciprocal_ranks(const Results& results,
                                               const std::vector<std::string>& variants) {
  std::map<std::string, double> sums;
  double cells = 0.0;
  for (const std::string& task : task_names(results)) {
    for (const double length : values_of(results, exact_metric(task), "length")) {
      if (length <= train_length_of(results)) continue;
      std::map<std::string, double> values;
      for (const std::string& variant : variants) {
        const auto found = summarize(results, variant, exact_metric(task), {{"length", length}});
        if (found) values[variant] = found->mean;
      }
      if (values.size() != variants.size()) continue;
      add_reciprocal_ranks(values, sums);
      cells += 1.0;
    }
  }
  for (auto& [variant, sum] : sums) sum /= cells;
  return sums;
}

void report_summary(const Results& results, Report& report) {
  const double trained = train_length_of(results);
  report.heading("All tasks, %");
  report.text(
      fmt::format("Mean over tasks and lengths; trained on lengths 1 to {:.0f}. Exact: an answer "
                  "counts if all of its tokens are right.",
                  trained));
  Table table{.head = {"variant", fmt::format("exact to {:.0f}", trained),
                       fmt::format("exact beyond {:.0f}", trained),
                       fmt::format("tokens beyond {:.0f}", trained)},
              .rows = {}};
  const auto within = [&](double length) { return length <= trained; };
  const auto beyond = [&](double length) { return length > trained; };
  const auto shown = [](std::optional<double> value) {
    return value ? fmt::format("{:.1f}", 100.0 * *value) : std::string("-");
  };
  for (const std::string& variant : encodings_of(results)) {
    table.rows.push_back({variant, shown(mean_over_tasks(results, variant, exact_metric, within)),
                          shown(mean_over_tasks(results, variant, exact_metric, beyond)),
                          shown(mean_over_tasks(results, variant, tokens_metric, beyond))});
  }
  report.table(table);
  report.chart("loss", {.title = "Training loss, all tasks",
                        .x_label = "step",
                        .y_label = "nats per token of an answer",
                        .y_scale = Scale::kLog,
                        .series = series_over(results, "training_loss", "step",
                                              {.variants = encodings_of(results)})});
}

void report_ranking(const Results& results, Report& report) {
  std::vector<std::string> common;
  std::map<std::string, double> published;
  Table table{.head = {"variant", "published mean reciprocal rank"}, .rows = {}};
  const std::vector<std::string> ours = encodings_of(results);
  for (const auto& [variant, value] : kPublishedRanks) {
    published[variant] = value;
    table.rows.push_back({variant, fmt::format("{:.2f}", value)});
    if (std::ranges::find(ours, variant) != ours.end()) common.emplace_back(variant);
  }
  const std::map<std::string, double> ranks = reciprocal_ranks(results, common);
  report.heading("Ranking beyond the trained length");
  Table own{.head = {"variant", "mean reciprocal rank here"}, .rows = {}};
  for (const std::string& variant : common) {
    const auto found = ranks.find(variant);
    if (found != ranks.end()) own.rows.push_back({variant, fmt::format("{:.2f}", found->second)});
  }
  report.table(own);
  report.text(
      "Published: Kazemnejad et al. (arXiv:2305.19466), 107 M parameters, 40,000 steps of 64, ten "
      "tasks of which five are here in other formats, lengths 20 to 40. Models here are smaller, "
      "with post-norm layers, and train for fewer steps.");
  report.table(table);
  const bool all_equal = std::ranges::all_of(
      ranks, [&](const auto& rank) { return rank.second == ranks.begin()->second; });
  report.text(all_equal ? "No encoding is ahead of the others here: there is no ranking to compare."
                        : rank_sentence("the published mean reciprocal ranks", ranks, published));
}

void report_task_tables(const Results& results, Report& report) {
  for (const std::string& task : task_names(results)) {
    report.heading(fmt::format("{}: exact match by length, %", task));
    report.table(table_over(results, exact_metric(task), "length", {.digits = 1, .factor = 100.0}));
    report.chart(exact_metric(task),
                 {.title = task + ": exact match",
                  .x_label = "length",
                  .y_label = "%",
                  .series = series_over(results, exact_metric(task), "length", {.factor = 100.0}),
                  .marks = {{train_length_of(results), "trained"}}});
  }
}

/// The value of each seed, where there are several: means hide models that learn a task or do not.
std::string by_seed(const Results& results, const std::string& variant, const std::string& metric,
                    const std::vector<double>& lengths) {
  std::map<std::int64_t, std::pair<double, double>> sums;
  for (const Row& row : results.rows) {
    if (row.variant != variant || row.metric != metric || !row.has_value()) continue;
    const auto length = row.at.find("length");
    if (length == row.at.end() || std::ranges::find(lengths, length->second) == lengths.end()) {
      continue;
    }
    sums[row.seed].first += row.value;
    sums[row.seed].second += 1.0;
  }
  std::string text;
  for (const auto& [seed, sum] : sums) {
    text += fmt::format("{}{:.0f}", text.empty() ? "" : ", ", 100.0 * sum.first / sum.second);
  }
  return text.empty() ? "-" : text;
}

void report_seeds(const Results& results, Report& report) {
  const double trained = train_length_of(results);
  const std::vector<std::string> tasks = task_names(results);
  const auto add = [&](const std::string& heading, const auto& counts) {
    Table table{.head = {"variant"}, .rows = {}};
    for (const std::string& task : tasks) table.head.push_back(task);
    for (const std::string& variant : encodings_of(results)) {
      auto& row = table.rows.emplace_back();
      row.push_back(variant);
      for (const std::string& task : tasks) {
        std::vector<double> lengths = values_of(results, exact_metric(task), "length");
        std::erase_if(lengths, [&](double length) { return !counts(length, lengths.back()); });
        row.push_back(by_seed(results, variant, exact_metric(task), lengths));
      }
    }
    report.heading(heading);
    report.table(table);
  };
  add(fmt::format("Each seed: exact to {:.0f}, %", trained),
      [&](double length, double) { return length <= trained; });
  add("Each seed: exact at the longest length, %",
      [](double length, double longest) { return length == longest; });
}

void report_roper(const Results& results, Report& report) {
  if (variants_of(results, "loss").empty()) return;
  report.heading("RoPER: values rotated and rotated back");
  const std::array<MetricColumn, 3> columns = {
      {{.metric = "solved",
        .head = fmt::format("solved of {}", results.settings.at("roper_problems").dump())},
       {.metric = "loss", .head = "loss", .digits = 4},
       {.metric = "parameters", .head = "parameters", .digits = 0, .same_for_seeds = true}}};
  Results roper{.lab = results.lab, .settings = results.settings};
  const std::vector<std::string> variants = variants_of(results, "loss");
  std::ranges::copy_if(results.rows, std::back_inserter(roper.rows), [&](const Row& row) {
    return std::ranges::find(variants, row.variant) != variants.end();
  });
  report.table(table_of(roper, columns));
  Table published{.head = {"task, published", "metric", "RoPE, published", "RoPER, published"},
                  .rows = {}};
  for (const PublishedRoper& row : kPublishedRoper) {
    published.rows.push_back({row.task, row.metric, row.rope, row.roper});
  }
  report.text(
      "Published (research.labml.ai/RoPER.html): 20 M parameters, rows of 641, batches of 32, "
      "5,000 steps; prefix 0.6 M with pre-norm layers, rows of 513, batches of 16, 65,000 steps; "
      "mean of the best 9 of 10 runs; completions are sampled. Here no run is left out, "
      "completions "
      "are greedy, layers are post-norm throughout, and the lengths of strings, which are not "
      "published, may differ.");
  report.table(published);
  report.chart("roper_loss", {.title = "RoPER's tasks: training loss",
                              .x_label = "step",
                              .y_label = "nats per character",
                              .x_scale = Scale::kLog,
                              .series = series_over(results, "training_loss", "step",
                                                    {.variants = variants_of(results, "loss")})});
}

}  // namespace

void report_tasks(const Results& results, Report& report) {
  report_summary(results, report);
  report_ranking(results, report);
  report_seeds(results, report);
  report_roper(results, report);
  report_task_tables(results, report);
}

}  // namespace rotary::roformer::lab
