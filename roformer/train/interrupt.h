// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// SIGINT (Ctrl-C) and SIGTERM (schedulers) request a stop after the current step. A second signal
// ends the process at once.
#pragma once

namespace rotary::roformer {

/// While one lives, SIGINT and SIGTERM set a flag. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether a signal was received since construction.
  static bool requested() noexcept;
};

}  // namespace rotary::roformer
