// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One process at a time trains in a folder.
#pragma once

#include <filesystem>

namespace rotary::roformer {

/// Held from here on; the system lets go of it when the process ends, however it ends. The file
/// `lock` stays in the folder and means nothing by itself.
class RunLock {
 public:
  /// The folder is made where there is none. Throws std::runtime_error where another process holds
  /// the lock, IoError or filesystem_error where the folder cannot be written. A file system that
  /// knows no locks is taken as it is.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace rotary::roformer
