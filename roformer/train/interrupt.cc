// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/interrupt.h"

#include <atomic>

namespace rotary::roformer {
namespace {

std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a handler may use it

void handle(int signal) {
  if (!g_requested.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_requested = false;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : handle;
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], &action, &before_[i]);
    // nohup: the run goes on without its terminal.
    if (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) {
      ::sigaction(SIGHUP, &before_[i], nullptr);
    }
  }
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &before_[i], nullptr);
  }
}

bool InterruptGuard::requested() noexcept { return g_requested; }

}  // namespace rotary::roformer
