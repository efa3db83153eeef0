// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/train/run_lock.h"

#include <sys/file.h>

#include <stdexcept>

#include "roformer/train/append.h"

namespace rotary::roformer {

RunLock::RunLock(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  descriptor_ = open_to_append(folder / "lock");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw std::runtime_error(folder.string() +
                           ": another process trains in this folder: wait for it, or choose "
                           "another folder");
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace rotary::roformer
