// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What `roformer finetune` and `roformer evaluate` tell: metrics, and the progress of a run.
#pragma once

#include <optional>
#include <string>

#include "json/json.h"
#include "roformer/cli/progress.h"
#include "roformer/tasks/finetune.h"
#include "roformer/train/interrupt.h"

namespace rotary::roformer::cli {

internal::Json metrics_json(const Metrics& metrics);
/// "91.20 %" for a share such as accuracy, else "0.1234".
std::string value_text(const std::string& metric, double value);
/// "accuracy 91.20 %, loss 0.1234"
std::string metrics_text(const Metrics& metrics);

/// Progress for the user, and Ctrl-C.
class TuneProgress {
 public:
  enum class Output : std::uint8_t { kLines, kNone };
  explicit TuneProgress(Output output);

  void say(const std::string& line);
  /// Connects the progress line and Ctrl-C.
  void watch(FinetuneOptions& tuning);

 private:
  InterruptGuard interrupts_;
  std::optional<Progress> progress_;
};

}  // namespace rotary::roformer::cli
