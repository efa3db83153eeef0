// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace rotary::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{500};
constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kBarWidth = 30;

}  // namespace

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::int64_t done) {
  const auto now = Clock::now();
  if (!is_terminal_ || total_ <= 0 || now - start_ < kPatience || now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const double part = std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(kBarWidth));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = part > 0.0 ? elapsed / part - elapsed : 0.0;
  fmt::print(stderr, "\r{} [{}{}] {:3.0f} %  {:.0f} s left\x1b[K", label_, std::string(filled, '#'),
             std::string(kBarWidth - filled, ' '), 100.0 * part, left);
  std::fflush(stderr);
}

}  // namespace rotary::cli
