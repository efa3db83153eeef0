// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// One process at a time trains in a folder.
#pragma once

#include <filesystem>

namespace rotary::roformer {

/// Held until the process ends, in whatever way. The file `lock` stays in the folder and means
/// nothing by itself.
class RunLock {
 public:
  /// Creates the folder if needed, and removes what killed processes left in it. Throws
  /// std::runtime_error if another process holds the lock, IoError or filesystem_error if the
  /// folder cannot be written. On a file system without locks there is no lock and no error.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace rotary::roformer
