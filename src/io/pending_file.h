// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Atomic file replacement: a file appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>

namespace rotary::internal {

/// Writes a temporary file beside `target` and renames it on commit(). Without a commit the
/// temporary file is removed and an existing target is unchanged. A symbolic link stays, and what
/// it leads to is replaced; permissions of a replaced file are kept. Throws IoError with the path
/// of the target, also if that is no regular file. The temporary file is locked: one that a killed
/// process left is not.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void append(const void* data, std::size_t size);
  /// Renames to the target; the last call.
  void commit();
  /// commit() with fsync of the file and its folder: after a power failure there is the old file or
  /// the new one.
  void commit_durably();

  /// Removes a file that has the name of a temporary one and that no process has locked. Links are
  /// not followed, errors ignored.
  static void remove_if_abandoned(const std::filesystem::path& path);

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace rotary::internal
