// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Files that are opened for reading.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rotary::internal {

struct OpenFile {
  /// The caller closes it.
  int descriptor = -1;
  std::uint64_t size = 0;
};

/// Never waits for a pipe. Throws IoError: no such file, a directory, a pipe or device.
OpenFile open_regular_file(const std::filesystem::path& path);

}  // namespace rotary::internal
