// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "tools/temporary_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace rotary::cli {
namespace {

constexpr std::string_view kPrefix = ".rotary-";
constexpr std::string_view kRandom = "XXXXXX";  // replaced by mkdtemp

/// Signals that would end the process; not those that nohup or a shell made it ignore.
sigset_t terminating_signals() {
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

/// Holds a lock on a folder for as long as the process lives: others see that it is in use.
bool lock_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return false;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;  // open until the process ends
  ::close(descriptor);
  return false;
}

void remove_folder(const std::filesystem::path& folder) {
  // The writer may create a file between listing and removal, hence the retries.
  std::error_code error;
  for (int i = 0; i < 10 && std::filesystem::exists(folder, error); ++i) {
    std::filesystem::remove_all(folder, error);
  }
}

/// Removes folders that killed processes left behind: of our name and owner, not in use, and older
/// than the moment between creation and lock. Links are not followed.
void remove_stale_folders(const std::filesystem::path& beside) {
  constexpr std::time_t kMinAge = 60;  // s
  std::error_code error;
  for (std::filesystem::directory_iterator entry(beside.empty() ? "." : beside, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandom.size()) continue;
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != ::geteuid() || std::time(nullptr) - status.st_mtime < kMinAge) {
      continue;
    }
    if (lock_folder(entry->path())) remove_folder(entry->path());
  }
}

/// Runs on a thread, since removing a folder is not allowed in a signal handler. Removes the
/// folder, then raises the signal again with its default action.
void watch_signals(const std::filesystem::path& folder) {
  const sigset_t signals = terminating_signals();
  int signal = 0;
  if (sigwait(&signals, &signal) != 0) return;
  remove_folder(folder);
  if (::isatty(STDERR_FILENO) == 1) std::fputs("\r\x1b[K", stderr);
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::kill(::getpid(), signal);
}

}  // namespace

TemporaryOutput::TemporaryOutput(const std::filesystem::path& target)
    : target_(internal::resolve_output(target)) {
  remove_stale_folders(target_.path.parent_path());
  std::string name = (target_.path.parent_path() / std::string(kPrefix).append(kRandom)).string();
  const sigset_t signals = terminating_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error(target.string() +
                             ": cannot write beside it: " + std::generic_category().message(errno));
  }
  folder_ = name;
  lock_folder(folder_);
  std::thread(watch_signals, folder_).detach();
}

TemporaryOutput::~TemporaryOutput() { remove_folder(folder_); }

void TemporaryOutput::commit() {
  std::error_code error;
  if (target_.mode) {
    std::filesystem::permissions(file(), static_cast<std::filesystem::perms>(*target_.mode), error);
  }
  if (!error) std::filesystem::rename(file(), target_.path, error);
  if (error) throw std::runtime_error(target_.path.string() + ": cannot write: " + error.message());
  internal::sync_folder(target_.path.parent_path());
}

}  // namespace rotary::cli
