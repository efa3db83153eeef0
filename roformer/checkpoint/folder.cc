// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "roformer/checkpoint/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "io/output_target.h"
#include "io/pending_file.h"
#include "rotary/error.h"

namespace rotary::roformer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRandomCharacters = 6;

[[noreturn]] void fail(const char* action, const fs::path& path) {
  throw fs::filesystem_error(action, path, std::error_code(errno, std::generic_category()));
}

/// Names of the entries, without "." and "..". None if the folder is a link or cannot be read.
std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return names;
  DIR* entries = ::fdopendir(descriptor);
  if (entries == nullptr) {
    ::close(descriptor);
    return names;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(entries);
  return names;
}

/// A descriptor that holds the lock, -1 if another process has it or there is no such folder.
int lock_folder(const fs::path& folder) noexcept {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

bool is_temporary_folder(std::string_view name) {
  for (const std::string_view prefix : {kUnfinishedPrefix, kNewModelPrefix}) {
    if (name.starts_with(prefix) && name.size() == prefix.size() + kRandomCharacters) return true;
  }
  return false;
}

/// Returns where the replaced folder is then. If the file system cannot exchange two names (NFS),
/// there is a moment in which both folders are complete, and neither has the name.
fs::path replace(const fs::path& from, const fs::path& target) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return from;
  }
  if (errno != EINVAL && errno != ENOSYS) fail("rename", target);
  fs::path aside = unused_name(target.parent_path(), kUnfinishedPrefix);
  fs::rename(target, aside);
  std::error_code failed;
  fs::rename(from, target, failed);
  if (failed) {
    fs::rename(aside, target);
    throw fs::filesystem_error("rename", target, failed);
  }
  return aside;
}

}  // namespace

void remove_folder(const fs::path& folder) noexcept {
  try {
    for (const std::string& name : entries_of(folder)) ::unlink((folder / name).c_str());
  } catch (const std::exception&) {  // out of memory: something stays
    return;
  }
  if (::rmdir(folder.c_str()) != 0 && errno == ENOTDIR) ::unlink(folder.c_str());
}

void create_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  // "folder/" has an empty name.
  const fs::path parent = folder.parent_path();
  create_folders(parent);
  if (folder.has_filename() && fs::create_directory(folder)) internal::sync_folder(parent);
}

void sync_file(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int result = ::fsync(descriptor);
  const int code = errno;
  ::close(descriptor);
  if (result == 0) return;
  throw IoError(file.string(), IoError::kNoOffset,
                "cannot write: " + std::generic_category().message(code));
}

fs::path unused_name(const fs::path& parent, std::string_view prefix) {
  constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> index(0, kCharacters.size() - 1);
  std::string name(prefix);
  for (std::size_t i = 0; i < kRandomCharacters; ++i) name += kCharacters[index(random)];
  return parent / name;
}

TemporaryFolder::TemporaryFolder(const fs::path& parent, std::string_view prefix) {
  constexpr int kMaxTries = 100;
  for (int i = 0; i < kMaxTries; ++i) {
    path_ = unused_name(parent, prefix);
    // Fails if there is anything of that name, even a link that leads nowhere.
    if (::mkdir(path_.c_str(), 0777) == 0) {
      lock_ = lock_folder(path_);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail("mkdir", path_);
}

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_folder(path_);
  if (lock_ >= 0) ::close(lock_);
}

void TemporaryFolder::rename_to(const fs::path& target) {
  for (const std::string& name : entries_of(path_)) sync_file(path_ / name);
  internal::sync_folder(path_);
  const fs::path parent = target.parent_path();
  if (::rename(path_.c_str(), target.c_str()) == 0) {
    path_.clear();
    internal::sync_folder(parent);
    return;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) fail("rename", target);
  const fs::path old = replace(path_, target);
  path_.clear();
  internal::sync_folder(parent);
  remove_folder(old);
}

void remove_leftovers(const fs::path& folder, std::int64_t min_seconds) noexcept {
  try {
    const std::vector<std::string> names = entries_of(folder);
    // A folder that was renamed to be removed may still have its old name on the disk.
    if (std::ranges::any_of(names, is_temporary_folder)) internal::sync_folder(folder);
    for (const std::string& name : names) {
      const fs::path path = folder / name;
      struct stat status {};
      if (::lstat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid() ||
          (min_seconds > 0 && std::time(nullptr) - status.st_mtime < min_seconds)) {
        continue;
      }
      if (S_ISDIR(status.st_mode) && is_temporary_folder(name)) {
        const int lock = lock_folder(path);
        if (lock < 0) continue;
        remove_folder(path);
        ::close(lock);
      } else if (S_ISREG(status.st_mode)) {
        internal::PendingFile::remove_if_abandoned(path);
      }
    }
  } catch (const std::exception&) {  // out of memory, or a disk that fails: something stays
  }
}

}  // namespace rotary::roformer
