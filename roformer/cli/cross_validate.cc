// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/cross_validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "json/json.h"
#include "roformer/checkpoint/tensor_files.h"
#include "roformer/cli/task_options.h"
#include "roformer/cli/text_model.h"
#include "roformer/cli/tune_report.h"
#include "roformer/train/ranks.h"

namespace rotary::roformer::cli {
namespace {

namespace fs = std::filesystem;
using internal::Json;

struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};
Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  for (const double value : values) spread.deviation += std::pow(value - spread.mean, 2);
  spread.deviation = std::sqrt(spread.deviation / std::max(1.0, count - 1));
  return spread;
}

/// Collects the metrics of the folds.
class FoldReport {
 public:
  /// Returns the line of the fold.
  std::string add(const Fold& fold, const Metrics& metrics, const std::string& metric) {
    if (metric_.empty()) metric_ = metric;
    // A fold without entities has no F1.
    results_.push_back(metrics.contains(metric_) ? metrics.at(metric_) : 0.0);
    const auto count = static_cast<double>(fold.test.size());
    sum_ += results_.back() * count;
    tested_ += count;
    json_["folds"].push_back({{"train", fold.train.size()},
                              {"test", fold.test.size()},
                              {"measures", metrics_json(metrics)}});
    return fmt::format("{} to train on, {} tested: {}", fold.train.size(), fold.test.size(),
                       metrics_text(metrics));
  }

  std::string summary() {
    const Spread spread = spread_of(results_);
    json_[metric_] = sum_ / tested_;
    json_["mean_of_folds"] = spread.mean;
    json_["deviation_of_folds"] = spread.deviation;
    const auto text = [this](double value) { return value_text(metric_, value); };
    return fmt::format("all: {} {}; folds {} +- {}", metric_, text(sum_ / tested_),
                       text(spread.mean), text(spread.deviation));
  }
  const Json& json() const noexcept { return json_; }

 private:
  Json json_ = {{"folds", Json::array()}};
  std::string metric_;
  std::vector<double> results_;
  double sum_ = 0.0;
  double tested_ = 0.0;
};

}  // namespace

void cross_validate(const TuneOptions& options) {
  const TuneConfig& config = options.config;
  const std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(text_options(config));
  const Labelled data = read_labelled(config.train, config);
  check_metric(config, data);
  const std::vector<Fold> folds =
      folds_of(data, static_cast<std::size_t>(config.folds), config.seed);
  FinetuneOptions tuning = finetune_options(config);
  tuning.ranks = join_ranks(read_rank_environment(), device_of_run(config));
  const bool is_first = !tuning.ranks || tuning.ranks->rank() == 0;
  TuneProgress progress(is_first && !options.json ? TuneProgress::Output::kLines
                                                  : TuneProgress::Output::kNone);
  progress.watch(tuning);
  FoldReport report;
  for (std::size_t i = 0; i < folds.size(); ++i) {
    const Model model = make_task_model(config, data, tokenizer->vocabulary(), config.seed + i);
    const Labelled test = items_of(data, folds[i].test);
    const FinetuneOutcome outcome =
        finetune(model, tokenizer, items_of(data, folds[i].train), nullptr, tuning);
    if (outcome.end.ending == Ending::kStopped) return progress.say("stopped");
    if (!is_first) continue;
    const Metrics metrics = evaluate(*model, test, tokenizer, tuning.reading);
    const std::string metric = tuning.metric.empty() ? main_metric(test, metrics) : tuning.metric;
    progress.say(fmt::format("fold {} of {}: {}", i + 1, folds.size(),
                             report.add(folds[i], metrics, metric)));
  }
  if (!is_first) return;
  progress.say(report.summary());
  if (!options.output.empty()) {
    write_text(fs::path(options.output) / "folds.json", report.json().dump_lines());
  }
  if (options.json) print_json(report.json());
}

}  // namespace rotary::roformer::cli
