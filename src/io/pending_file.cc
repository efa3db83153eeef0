// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "rotary/error.h"

namespace rotary::internal {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& target, const char* doing) {
  const int code = errno;
  throw IoError(target.string(), IoError::kNoOffset,
                std::string(doing) + ": " + std::generic_category().message(code));
}

/// A name that no other thread or process of this machine picks, and short: the target's own name
/// may already be as long as the file system allows.
std::string temporary_name() {
  static std::atomic<std::uint64_t> counter{0};
  return ".rotary-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
}

}  // namespace

PendingFile::PendingFile(std::filesystem::path target) : target_(std::move(target)) {
  constexpr int kTries = 100;  // Left-overs of a killed process with the same id.
  for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
    temporary_ = target_.parent_path() / temporary_name();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (descriptor_ < 0) fail_with_errno(target_, "cannot create a file beside it");
}

PendingFile::~PendingFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PendingFile::append(const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno(target_, "cannot write");
    next += written;
    size -= static_cast<std::size_t>(written);
  }
}

void PendingFile::commit() {
  // Some file systems report a full disk only here.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 && errno != EINTR) fail_with_errno(target_, "cannot write");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_with_errno(target_, "cannot rename the finished file");
  }
  temporary_.clear();
}

void PendingFile::commit_durably() {
  if (::fsync(descriptor_) != 0) fail_with_errno(target_, "cannot write");
  commit();
  const std::filesystem::path folder = target_.parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // A folder that may be written but not read.
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace rotary::internal
