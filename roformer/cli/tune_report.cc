// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/tune_report.h"

#include <fmt/core.h>

namespace rotary::roformer::cli {

using internal::Json;

Json metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = value;
  return json;
}

std::string value_text(const std::string& metric, double value) {
  const bool is_share = metric == "accuracy" || metric == "exact";
  return is_share ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
}

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    if (!text.empty()) text += ", ";
    text += name + " " + value_text(name, value);
  }
  return text;
}

TuneProgress::TuneProgress(Output output) {
  if (output == Output::kLines) progress_.emplace();
}

void TuneProgress::say(const std::string& line) {
  if (progress_) progress_->say(line);
}

void TuneProgress::watch(FinetuneOptions& tuning) {
  tuning.on_report = [this](const StepReport& report) {
    if (progress_) progress_->show(report);
  };
  tuning.on_stop = [] { return InterruptGuard::requested(); };
}

}  // namespace rotary::roformer::cli
