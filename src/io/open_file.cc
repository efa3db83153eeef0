// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "rotary/error.h"

namespace rotary::internal {

OpenFile open_regular_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe without a writer would block.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const auto fail = [&](const std::string& message) {
    if (descriptor >= 0) ::close(descriptor);
    throw IoError(path.string(), IoError::kNoOffset, message);
  };
  const auto reason = [] { return std::generic_category().message(errno); };
  if (descriptor < 0) fail("cannot open: " + reason());
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("cannot read its size: " + reason());
  if (S_ISDIR(status.st_mode)) fail("is a directory, not a file");
  if (!S_ISREG(status.st_mode)) fail("is not a regular file");
  return {.descriptor = descriptor, .size = static_cast<std::uint64_t>(status.st_size)};
}

}  // namespace rotary::internal
