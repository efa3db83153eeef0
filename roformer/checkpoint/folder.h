// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Folders of checkpoints, which hold files and no other folders.
//
// Some builds of LibTorch export std::filesystem::remove_all() and recursive iterators of the
// compiler that they were built with. A program then calls those instead of its own and crashes, so
// nothing here uses them.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace rotary::roformer {

/// With the files in it. Errors are ignored.
inline void remove_folder(const std::filesystem::path& folder) noexcept {
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  const int descriptor = ::dirfd(entries);
  while (const dirent* entry = ::readdir(entries)) {
    ::unlinkat(descriptor, static_cast<const char*>(entry->d_name), 0);
  }
  ::closedir(entries);
  ::rmdir(folder.c_str());
}

/// Its entries are on the disk when this returns, where the system can tell.
inline void sync_folder(const std::filesystem::path& folder) noexcept {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // A folder that may be written but not read.
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace rotary::roformer
