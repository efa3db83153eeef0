// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Progress of a run: one line that is overwritten on a terminal; elsewhere a line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "roformer/train/trainer.h"

namespace rotary::roformer::cli {

/// "step 120/1000  loss 5.1234  norm 0.84  412k tokens/s  12.3 GiB  2 h 14 min left"
std::string progress_text(const StepReport& report);
/// "14 s", "12 min", "2 h 14 min", "3 days 4 h".
std::string time_text(double seconds);

/// Writes to stdout. Output that cannot be written (a closed terminal or pipe, a full disk) is
/// dropped: the run goes on.
class Progress {
 public:
  Progress();
  /// Ends the progress line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const StepReport& report);
  /// Replaces the progress line.
  void show(const std::string& text);
  /// Prints a permanent line.
  void say(const std::string& line);

 private:
  void print(const std::string& text) noexcept;
  void write_over(const std::string& text);

  bool live_;
  std::size_t columns_;
  bool open_ = false;
  bool broken_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace rotary::roformer::cli
