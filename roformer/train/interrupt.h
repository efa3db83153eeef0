// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// SIGINT (Ctrl-C), SIGTERM (schedulers) and SIGHUP (a terminal that is closed) request a stop after
// the current step. A second signal ends the process at once. SIGPIPE is ignored: a reader of the
// output that goes away must not end the run.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace rotary::roformer {

/// While one lives, those signals set a flag. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether a signal was received since construction.
  static bool requested() noexcept;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace rotary::roformer
