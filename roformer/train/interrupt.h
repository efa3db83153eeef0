// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Ctrl-C, and the signal that schedulers send: a wish to stop at the next step. Whoever asks twice
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

  /// Whether one has come since.
  static bool requested() noexcept;
};

}  // namespace rotary::roformer
