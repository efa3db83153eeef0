// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/output_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "rotary/error.h"

namespace rotary::internal {
namespace {

namespace fs = std::filesystem;

/// Follows symbolic links by name: the file that the last one names need not exist.
fs::path follow_links(fs::path path, const fs::path& given) {
  constexpr int kMaxLinks = 40;  // as Linux
  std::error_code error;
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    if (i == kMaxLinks) {
      throw IoError(given.string(), IoError::kNoOffset, "too many symbolic links");
    }
    const fs::path next = fs::read_symlink(path, error);
    if (error) throw IoError(given.string(), IoError::kNoOffset, error.message());
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

}  // namespace

OutputTarget resolve_output(const fs::path& path) {
  OutputTarget target{follow_links(path, path), std::nullopt};
  struct stat status {};
  if (::stat(target.path.c_str(), &status) != 0) return target;  // creating it reports other errors
  if (S_ISDIR(status.st_mode)) throw IoError(path.string(), IoError::kNoOffset, "is a folder");
  if (!S_ISREG(status.st_mode)) {
    throw IoError(path.string(), IoError::kNoOffset, "is not a regular file; it is not replaced");
  }
  target.mode = status.st_mode & 07777;
  return target;
}

void sync_folder(const fs::path& folder) {
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int result = ::fsync(descriptor);
  const int code = errno;
  ::close(descriptor);
  if (result == 0 || code == EINVAL || code == ENOTSUP) return;
  throw IoError(folder.empty() ? "." : folder.string(), IoError::kNoOffset,
                "cannot write: " + std::generic_category().message(code));
}

}  // namespace rotary::internal
