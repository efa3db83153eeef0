// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Where an output file goes, and what it keeps of the file that it replaces.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

namespace rotary::internal {

struct OutputTarget {
  std::filesystem::path path;  // what a symbolic link leads to, so that the link itself stays
  std::optional<mode_t> mode;  // permissions of the file that is replaced; none if there is none
};

/// Throws IoError if there is something other than a regular file, such as a folder, a FIFO or a
/// device: a rename would replace it.
OutputTarget resolve_output(const std::filesystem::path& path);

/// fsync of a folder: afterwards its renames survive a power failure. Nothing happens to a folder
/// that is writable but not readable, or on a file system that cannot sync folders. Throws IoError
/// if the disk fails.
void sync_folder(const std::filesystem::path& folder);

}  // namespace rotary::internal
