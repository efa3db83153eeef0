// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Folders of checkpoints, which hold files and no other folders: they appear under their names when
// they are complete and on the disk.
//
// Some builds of LibTorch export std::filesystem::remove_all() and recursive iterators of the
// compiler that they were built with. A program then calls those instead of its own and crashes, so
// nothing here uses them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace rotary::roformer {

/// With the files in it. A symbolic link is removed, not followed. Errors are ignored.
void remove_folder(const std::filesystem::path& folder) noexcept;

/// Creates the folder and those above it, and syncs the folders that they are in. Throws
/// filesystem_error and IoError.
void create_folders(const std::filesystem::path& folder);

/// Syncs a file that may not be there. Throws IoError.
void sync_file(const std::filesystem::path& file);

/// Prefixes of temporary folders, which six random characters follow.
inline constexpr std::string_view kUnfinishedPrefix = ".unfinished-";
inline constexpr std::string_view kNewModelPrefix = ".roformer-";

/// A name of no file or folder: random, so that nobody can prepare a link there.
std::filesystem::path unused_name(const std::filesystem::path& parent, std::string_view prefix);

/// A new folder under a temporary name. Removed by the destructor unless it was renamed; locked, so
/// that one that a killed process left can be told from one in use.
class TemporaryFolder {
 public:
  /// Throws filesystem_error.
  TemporaryFolder(const std::filesystem::path& parent, std::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Syncs the files and the folder, renames it, and syncs its parent. A folder of that name is
  /// replaced: the two names are exchanged in one operation, where the file system can, and only
  /// then is the old one removed. The last call. Throws filesystem_error and IoError.
  void rename_to(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// Removes temporary folders and files (internal::PendingFile) that killed processes left in a
/// folder: those of this user that no process has locked and that are older than `min_seconds`.
/// Links are not followed, errors ignored.
void remove_leftovers(const std::filesystem::path& folder, std::int64_t min_seconds) noexcept;

}  // namespace rotary::roformer
