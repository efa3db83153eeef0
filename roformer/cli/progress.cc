// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/cli/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "console/output.h"
#include "explain/format.h"

namespace rotary::roformer::cli {
namespace {

// Time between two lines if they are not overwritten.
constexpr auto kInterval = std::chrono::seconds(10);

}  // namespace

std::string time_text(double seconds) {
  constexpr double kMinute = 60.0;
  constexpr double kHour = 3600.0;
  constexpr double kDay = 86400.0;
  if (!(seconds < 1000.0 * kDay)) return "long";
  const auto whole = [](double value) { return static_cast<std::int64_t>(value); };
  if (seconds < kMinute) return fmt::format("{} s", whole(seconds));
  if (seconds < kHour) return fmt::format("{} min", whole(seconds / kMinute));
  if (seconds < kDay) {
    return fmt::format("{} h {} min", whole(seconds / kHour),
                       whole(std::fmod(seconds, kHour) / kMinute));
  }
  return fmt::format("{} days {} h", whole(seconds / kDay),
                     whole(std::fmod(seconds, kDay) / kHour));
}

std::string progress_text(const StepReport& report) {
  constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
  return fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3g}  {} tokens/s  {:.1f} GiB  {} left", report.step,
      report.steps, report.loss, report.gradient_norm, explain::format_si(report.tokens_per_second),
      static_cast<double>(report.memory_bytes) / kGibi, time_text(report.seconds_left));
}

Progress::Progress()
    : live_(::isatty(STDOUT_FILENO) == 1), columns_(console::detect_terminal().columns) {}

Progress::~Progress() {
  if (open_) print("\n");
}

void Progress::print(const std::string& text) noexcept {
  if (broken_) return;
  broken_ =
      std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
}

void Progress::write_over(const std::string& text) {
  // A line that wraps could not be overwritten.
  print("\r\x1b[K" + text.substr(0, columns_ - 1));
  open_ = true;
}

void Progress::show(const std::string& text) {
  if (live_) return write_over(text);
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < kInterval) return;
  shown_ = now;
  print(text + "\n");
}

void Progress::show(const StepReport& report) {
  // The last line is always printed.
  if (report.step == report.steps) shown_ = {};
  show(progress_text(report));
  if (report.layers.empty()) return;
  std::string line = fmt::format("gradients of step {}:", report.step);
  for (const auto& [layer, norm] : report.layers) line += fmt::format("  {} {:.3g}", layer, norm);
  say(line);
}

void Progress::say(const std::string& line) {
  print((open_ ? "\r\x1b[K" : "") + line + "\n");
  open_ = false;
}

}  // namespace rotary::roformer::cli
