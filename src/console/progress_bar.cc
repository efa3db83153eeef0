// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "console/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "console/output.h"

namespace rotary::console {
namespace {

constexpr std::chrono::milliseconds kDelay{500};
constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(total), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(std::int64_t done) {
  const auto now = Clock::now();
  if (!is_terminal_ || total_ <= 0 || now - start_ < kDelay || now - last_ < kInterval) return;
  last_ = now;
  shown_ = true;
  const double fraction =
      std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(fraction * static_cast<double>(kBarWidth));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = fraction > 0.0 ? elapsed / fraction - elapsed : 0.0;
  print_error(fmt::format("\r{} [{}{}] {:3.0f} %  {:.0f} s left\x1b[K", label_,
                          std::string(filled, '#'), std::string(kBarWidth - filled, ' '),
                          100.0 * fraction, left));
}

}  // namespace rotary::console
