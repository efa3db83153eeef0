// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A bar on stderr for work that takes a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rotary::cli {

/// Silent unless stderr is a terminal and the work has lasted half a second; wipes itself at the
/// end.
class Progress {
 public:
  Progress(std::string label, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

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

}  // namespace rotary::cli
