// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Files that grow by whole lines or records.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "rotary/error.h"

namespace rotary::roformer {

[[noreturn]] inline void fail_to_write(const std::filesystem::path& path) {
  const int code = errno;
  throw IoError(path.string(), IoError::kNoOffset,
                "cannot write: " + std::generic_category().message(code));
}

/// Returns a descriptor. Throws IoError.
inline int open_to_append(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_to_write(path);
  return descriptor;
}

/// In one system call where possible, so that a killed process leaves whole records. Throws
/// IoError.
inline void append_whole(int descriptor, std::string_view bytes,
                         const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace rotary::roformer
