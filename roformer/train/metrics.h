// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Metrics of a run, as JSON lines and for TensorBoard:
//
//   run/metrics.jsonl               {"step": 10, "loss": 6.93, "gradient_norm": 0.8, ...}
//                                   {"step": 10, "evaluation": {"accuracy": 0.5}}
//   run/events.out.tfevents.*       the same under the same names; evaluation/accuracy
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "roformer/train/event_file.h"
#include "roformer/train/trainer.h"

namespace rotary::roformer {

/// Files are created with the first line. All functions throw IoError if one cannot be written.
class MetricsLog {
 public:
  explicit MetricsLog(std::filesystem::path folder);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const StepReport& report);
  void write(std::int64_t step, const Metrics& metrics);
  /// Removes the lines of later steps, which a resumed run computes again.
  void go_back_to(std::int64_t step);

 private:
  void open(std::int64_t first_step);

  std::filesystem::path folder_;
  int lines_ = -1;
  std::unique_ptr<EventFile> events_;
};

}  // namespace rotary::roformer
