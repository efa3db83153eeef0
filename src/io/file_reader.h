// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reads parts of a regular file. Unlike a memory mapping, a file that another process truncates
// meanwhile is an IoError, not a SIGBUS that ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rotary::internal {

class FileReader {
 public:
  /// Throws IoError: no such file, a directory, a pipe or device.
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// Bytes when it was opened.
  std::uint64_t size() const noexcept { return size_; }
  /// Throws IoError if the file has no such bytes (any more).
  std::string read(std::uint64_t offset, std::size_t size) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// The whole file. Throws IoError, also for one of more than `max_mebibytes`.
std::string read_small_file(const std::filesystem::path& path, std::size_t max_mebibytes = 16);

}  // namespace rotary::internal
