// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::MappedFile, by POSIX mmap.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "rotary/io.h"

namespace rotary {
namespace {

/// Closes the file descriptor on scope exit. The mapping stays valid.
class Descriptor {
 public:
  explicit Descriptor(int value) noexcept : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return value_; }

 private:
  int value_;
};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& message) {
  throw IoError(path.string(), IoError::kNoOffset, message);
}

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  fail(path, std::string(action) + ": " + std::generic_category().message(code));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe without a writer would block.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) fail_with_errno(path, "cannot open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_with_errno(path, "cannot read its size");
  if (S_ISDIR(status.st_mode)) fail(path, "is a directory, not a file");
  if (!S_ISREG(status.st_mode)) fail(path, "is not a regular file");
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail_with_errno(path, "cannot map into memory");
  bytes_ = {static_cast<const char*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace rotary
