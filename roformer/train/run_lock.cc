// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "roformer/checkpoint/folder.h"
#include "roformer/train/append.h"

namespace rotary::roformer {
namespace {

/// Of killed processes, in the run and in the folders of its models and checkpoints. Nobody else is
/// at work there now.
void remove_leftovers_of_run(const std::filesystem::path& run) {
  remove_leftovers(run, 0);
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(run, failed)) {
    remove_leftovers(entry.path(), 0);
  }
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder) {
  create_folders(folder);
  descriptor_ = open_to_append(folder / "lock");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    remove_leftovers_of_run(folder);
    return;
  }
  if (errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw std::runtime_error(folder.string() +
                           ": another process trains in this folder: wait for it, or choose "
                           "another folder");
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace rotary::roformer
