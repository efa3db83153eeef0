// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/metrics.h"

#include <fstream>
#include <utility>

#include "json/json.h"
#include "roformer/checkpoint/tensor_files.h"
#include "roformer/train/append.h"

namespace rotary::roformer {
namespace {

using Scalars = std::vector<std::pair<std::string, double>>;

Scalars scalars_of(const StepReport& report) {
  return {{"loss", report.loss},
          {"gradient_norm", report.gradient_norm},
          {"learning_rate", report.learning_rate},
          {"tokens_per_second", report.tokens_per_second}};
}

/// The step of a line; -1 for a truncated one.
std::int64_t step_of_line(const std::string& line) {
  const internal::Json json = internal::try_parse_json(line);
  const internal::Json* step = json.find("step");
  return step != nullptr && step->is_int64() ? step->as_int64() : -1;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

MetricsLog::~MetricsLog() {
  if (lines_ >= 0) ::close(lines_);
}

void MetricsLog::open(std::int64_t first_step) {
  if (lines_ >= 0) return;
  std::filesystem::create_directories(folder_);
  lines_ = open_to_append(folder_ / "metrics.jsonl");
  events_ = std::make_unique<EventFile>(folder_, first_step);
}

void MetricsLog::write(const StepReport& report) {
  open(report.step);
  internal::Json line;
  line["step"] = report.step;
  Scalars scalars = scalars_of(report);
  for (const auto& [name, value] : scalars) line[name] = value;
  line["tokens"] = report.tokens;
  line["memory_bytes"] = report.memory_bytes;
  for (const auto& [layer, norm] : report.layers) {
    line["gradients"][layer] = norm;
    scalars.emplace_back("gradients/" + layer, norm);
  }
  append_whole(lines_, line.dump() + "\n", folder_ / "metrics.jsonl");
  events_->write(report.step, scalars);
}

void MetricsLog::write(std::int64_t step, const Metrics& metrics) {
  open(step);
  internal::Json line;
  line["step"] = step;
  Scalars scalars;
  for (const auto& [name, value] : metrics) {
    line["evaluation"][name] = value;
    scalars.emplace_back("evaluation/" + name, value);
  }
  append_whole(lines_, line.dump() + "\n", folder_ / "metrics.jsonl");
  events_->write(step, scalars);
}

void MetricsLog::go_back_to(std::int64_t step) {
  const std::filesystem::path path = folder_ / "metrics.jsonl";
  std::ifstream in(path);
  if (!in) return;
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const std::int64_t at = step_of_line(line);
    if (at >= 0 && at <= step) kept += line + "\n";
  }
  write_text(path, kept);
  open(step + 1);
}

}  // namespace rotary::roformer
