// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::MappedFile, by POSIX mmap.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "io/open_file.h"
#include "rotary/io.h"

namespace rotary {

MappedFile::MappedFile(const std::filesystem::path& path) {
  const internal::OpenFile file = internal::open_regular_file(path);
  const auto size = static_cast<std::size_t>(file.size);
  void* const data =
      size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
  const int code = errno;
  ::close(file.descriptor);  // the mapping stays valid
  if (data == MAP_FAILED) {
    throw IoError(path.string(), IoError::kNoOffset,
                  "cannot map into memory: " + std::generic_category().message(code));
  }
  if (data != nullptr) bytes_ = {static_cast<const char*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace rotary
