// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/scratch.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace rotary::cli {
namespace {

/// Those that would end the process: not the ones that nohup or a shell has told it to ignore.
sigset_t stopping_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
      sigaddset(&signals, signal);
    }
  }
  return signals;
}

void remove_folder(const std::filesystem::path& folder) {
  // A writer may add a file between the listing and the removal; it cannot add many.
  std::error_code error;
  for (int i = 0; i < 10 && std::filesystem::exists(folder, error); ++i) {
    std::filesystem::remove_all(folder, error);
  }
}

/// A thread of its own may do what a signal handler may not: it removes the folder, then lets the
/// signal end the process as it would have.
void watch_signals(const std::filesystem::path& folder) {
  const sigset_t signals = stopping_signals();
  int signal = 0;
  if (sigwait(&signals, &signal) != 0) return;
  remove_folder(folder);
  if (::isatty(STDERR_FILENO) == 1) std::fputs("\r\x1b[K", stderr);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::kill(::getpid(), signal);
}

}  // namespace

Scratch::Scratch(const std::filesystem::path& target) : target_(target) {
  std::string name = (target.parent_path() / ".rotary-XXXXXX").string();
  const sigset_t signals = stopping_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(target.string() +
                             ": cannot write beside it: " + std::generic_category().message(errno));
  }
  folder_ = name;
  std::thread(watch_signals, folder_).detach();
}

Scratch::~Scratch() { remove_folder(folder_); }

void Scratch::commit() {
  std::error_code error;
  std::filesystem::rename(file(), target_, error);
  if (error) throw std::runtime_error(target_.string() + ": cannot write: " + error.message());
}

}  // namespace rotary::cli
