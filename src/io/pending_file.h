// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <filesystem>

namespace rotary::internal {

/// Writes beside `target` and renames on commit(). Without a commit nothing is left behind, and a
/// file that was there before is untouched. Throws IoError with the path of the target.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path target);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void append(const void* data, std::size_t size);
  /// Last call: the file stands under its name, readable and writable as the umask says.
  void commit();
  /// commit(), once the bytes are on the disk, and then the name: a power cut leaves the old file
  /// or the new one.
  void commit_durably();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace rotary::internal
