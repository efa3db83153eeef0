// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/pending_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/output_target.h"
#include "rotary/error.h"

namespace rotary::internal {
namespace {

constexpr std::string_view kPrefix = ".rotary-";
constexpr std::string_view kSuffix = ".tmp";

[[noreturn]] void fail_with_errno(const std::filesystem::path& target, const char* action) {
  const int code = errno;
  throw IoError(target.string(), IoError::kNoOffset,
                std::string(action) + ": " + std::generic_category().message(code));
}

/// Unique among the threads and processes of this machine. Independent of the target's name, which
/// may already have the maximum length.
std::string temporary_name() {
  static std::atomic<std::uint64_t> counter{0};
  return std::string(kPrefix) + std::to_string(::getpid()) + "-" + std::to_string(counter++) +
         std::string(kSuffix);
}

}  // namespace

PendingFile::PendingFile(const std::filesystem::path& target) {
  const OutputTarget resolved = resolve_output(target);
  target_ = resolved.path;
  constexpr int kMaxTries = 100;  // names may be left over from a killed process with the same id
  for (int i = 0; i < kMaxTries && descriptor_ < 0; ++i) {
    temporary_ = target_.parent_path() / temporary_name();
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (descriptor_ < 0) fail_with_errno(target, "cannot create a file beside it");
  ::flock(descriptor_, LOCK_EX | LOCK_NB);  // some file systems have no locks
  if (resolved.mode && ::fchmod(descriptor_, *resolved.mode) != 0) {
    const int code = errno;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
    errno = code;
    fail_with_errno(target, "cannot keep its permissions");
  }
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
  // Some file systems report a full disk only on close.
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
  sync_folder(target_.parent_path());
}

void PendingFile::remove_if_abandoned(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
  ::close(descriptor);
}

}  // namespace rotary::internal
