// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `roformer`.
#include <fmt/core.h>

#include <array>
#include <string_view>
#include <utility>

#include "roformer/data/glue.h"
#include "roformer/lab/figure3.h"
#include "roformer/lab/labs.h"
#include "roformer/lab/report.h"

namespace rotary::roformer::lab {
namespace {

using internal::Json;

/// Published curves behind ours.
Chart curves_over(std::string title, std::vector<Series> ours,
                  std::span<const PublishedCurve> published) {
  Chart chart{.title = std::move(title),
              .x_label = "step",
              .y_label = "loss, nats",
              .x_scale = Scale::kLog,
              .series = std::move(ours)};
  if (chart.series.empty()) return chart;
  for (const PublishedCurve& curve : published) {
    Series series{.label = std::string(curve.name), .published = true};
    for (const auto& [step, loss] : curve.points) series.points.push_back({.x = step, .y = loss});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

/// The variants that have a number in the first column: those of one of the experiments.
Table rows_with_first(const Results& results, std::span<const MetricColumn> columns) {
  Table table = table_of(results, columns);
  std::erase_if(table.rows, [](const std::vector<std::string>& row) { return row[1] == "-"; });
  return table;
}

/// The loss of a published curve at some of its steps.
Table published_losses(std::span<const PublishedCurve> curves) {
  Table table{.head = {"curve", "first point", "middle", "last point"}, .rows = {}};
  for (const PublishedCurve& curve : curves) {
    std::vector<std::string> row = {std::string(curve.name)};
    for (const std::size_t i : {std::size_t{0}, curve.points.size() / 2, curve.points.size() - 1}) {
      row.push_back(fmt::format("{:.2f} at {:.0f}", curve.points[i].loss, curve.points[i].step));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void report_masked(const Results& results, Report& report) {
  report.heading("Masked LM: learned positions, RoPE, and LayerNorm on queries and keys");
  const double last = values_of(results, "masked_loss", "step").empty()
                          ? 0.0
                          : values_of(results, "masked_loss", "step").back();
  const std::array<MetricColumn, 3> columns = {
      {{.metric = "masked_loss",
        .head = fmt::format("loss at step {:.0f}", last),
        .digits = 3,
        .at = {{"step", last}}},
       {.metric = "masked_accuracy", .head = "held-out accuracy, %", .digits = 2, .factor = 100.0},
       {.metric = "parameters", .head = "parameters", .digits = 0, .same_for_seeds = true}}};
  report.table(rows_with_first(results, columns));
  report.chart("masked_loss",
               curves_over("Masked LM, over figure 3 (left) of the paper",
                           series_over(results, "masked_loss", "step"), published_masked_curves()));
  report.text(
      "Published: figure 3 of RoFormer (arXiv:2104.09864), base size, 512 tokens, BookCorpus and "
      "Wikipedia, batches of 64, 250,000 steps. Here the model and the corpus are smaller, the "
      "learning rate is higher and falls, and the vocabulary is another: the order of the curves "
      "compares, not their height.");
  report.table(published_losses(published_masked_curves()));
}

void report_linear(const Results& results, Report& report) {
  report.heading("Linear attention: a character LM with Performer and other feature maps");
  const std::vector<double> steps = values_of(results, "character_loss", "step");
  const double last = steps.empty() ? 0.0 : steps.back();
  const std::array<MetricColumn, 3> columns = {
      {{.metric = "character_loss",
        .head = fmt::format("loss at step {:.0f}", last),
        .digits = 3,
        .at = {{"step", last}}},
       {.metric = "held_out_loss", .head = "held-out loss", .digits = 3},
       {.metric = "parameters", .head = "parameters", .digits = 0, .same_for_seeds = true}}};
  report.table(rows_with_first(results, columns));
  report.chart("character_loss", curves_over("Character LM, over figure 3 (right) of the paper",
                                             series_over(results, "character_loss", "step"),
                                             published_performer_curves()));
  report.text(
      "Published: the same figure, Performer of 12 layers of 768 on enwik8, rows of 1024, batches "
      "of "
      "128. Here the text is Wikipedia without markup (or Shakespeare), and the model is smaller.");
  report.table(published_losses(published_performer_curves()));
}

/// Columns of the tasks in the settings, with the metric that GLUE judges by.
std::vector<MetricColumn> glue_columns(const Results& results) {
  std::vector<MetricColumn> columns;
  for (const Json& name : results.settings.at("glue").at("tasks").elements()) {
    const GlueTask* task = find_glue_task(name.as_string());
    const std::string metric = task != nullptr ? std::string(task->metric) : "accuracy";
    columns.push_back({.metric = name.as_string() + "_" + metric,
                       .head = name.as_string() + " " + metric,
                       .digits = 1,
                       .factor = 100.0});
  }
  return columns;
}

void report_glue(const Results& results, Report& report) {
  report.heading("Fine-tuning: GLUE on a small scale");
  report.text(
      "Each seed pretrains and fine-tunes anew; metrics of the validation set after the last "
      "epoch, "
      "x 100. No epoch and no learning rate is chosen.");
  report.table(table_of(results, glue_columns(results)));
  report.text(
      "Published (RoFormer, table 2): base size, learning rates chosen on the validation set; the "
      "row of BERT is of the test server. CoLA and RTE are not in it.");
  report.table({.head = {"model, published", "mrpc f1", "sst-2 accuracy", "sts-b spearman"},
                .rows = {{"BERT", "88.9", "93.5", "85.8"}, {"RoFormer", "89.5", "90.7", "87.0"}}});
}

}  // namespace

void report_roformer(const Results& results, Report& report) {
  report_masked(results, report);
  report_linear(results, report);
  report_glue(results, report);
}

}  // namespace rotary::roformer::lab
