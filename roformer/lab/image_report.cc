// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The report of the lab `image`, beside RoPE-ViT's table.
#include <vector>

#include "roformer/lab/labs.h"
#include "roformer/lab/report.h"

namespace rotary::roformer::lab {

void report_image(const Results& results, Report& report) {
  report.text(
      "Each vision Transformer is trained on images of 32 x 32 pixels and judged on the same test "
      "images resized to smaller and larger ones: patches keep their pixels, so that there are "
      "fewer "
      "or more of them. The learned table is interpolated; rotations and sinusoids go on with rows "
      "and columns that training never had. ± is the standard deviation over seeds.");
  const TableOptions percent{.digits = 1, .factor = 100.0};
  report.heading("Accuracy by size of the images, %");
  report.chart("accuracy", {.title = "Accuracy by size of the images",
                            .x_label = "pixels of a side",
                            .y_label = "%",
                            .series = series_over(results, "accuracy", "size", percent),
                            .marks = {{32.0, "trained"}}});
  report.table(table_over(results, "accuracy", "size", percent));

  report.heading("Size of the models");
  const std::vector<MetricColumn> columns = {{.metric = "parameters",
                                              .head = "parameters, M",
                                              .digits = 3,
                                              .factor = 1e-6,
                                              .same_for_seeds = true}};
  report.table(table_of(results, columns));

  report.heading("Published");
  report.text(
      "RoPE-ViT (arXiv 2403.13298): top-1 accuracy on ImageNet of DeiT-III models trained at 224 "
      "pixels, judged at 224 and 384. Their models and images are larger: numbers cannot be "
      "compared, "
      "only the order of the encodings beyond the size of training can.");
  report.table({.head = {"encoding, published", "S at 224", "S at 384", "B at 224", "B at 384",
                         "L at 224", "L at 384"},
                .rows = {{"learned", "80.4", "79.4", "83.4", "82.8", "84.6", "84.2"},
                         {"axial RoPE", "80.9", "80.0", "83.6", "83.9", "84.7", "85.1"},
                         {"RoPE-Mixed", "80.9", "81.8", "83.8", "84.4", "84.8", "85.6"}}});
  const std::vector<double> sizes = values_of(results, "accuracy", "size");
  const std::map<std::string, double> published = {
      {"learned", 79.4}, {"axial RoPE", 80.0}, {"RoPE-Mixed", 81.8}};
  report.text("Spearman's rank correlation with theirs of the model S at 384:");
  Table ranks{.head = {"ours at", "rank correlation", "encodings in common"}, .rows = {}};
  for (const double size : sizes) {
    if (size <= 32.0) continue;
    std::map<std::string, double> ours;
    for (const auto& [name, value] : published) {
      if (const auto mean = summarize(results, name, "accuracy", {{"size", size}})) {
        ours[name] = mean->mean;
      }
    }
    const RankCell cell = rank_cell(ours, published);
    ranks.rows.push_back(
        {tick_label(size) + " pixels", cell.correlation, std::to_string(cell.in_common)});
  }
  report.table(ranks);
}

}  // namespace rotary::roformer::lab
