// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A progress bar on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rotary::console {

/// Drawn only if stderr is a terminal and the work has lasted half a second; erased at the end.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Redraws at most ten times a second. `done` counts towards `total`.
  void update(std::int64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  std::int64_t total_;
  bool is_terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace rotary::console
