// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "io/file_reader.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "io/open_file.h"
#include "rotary/error.h"
#include "support/message.h"

namespace rotary::internal {

FileReader::FileReader(const std::filesystem::path& path) : path_(path.string()) {
  const OpenFile file = open_regular_file(path);
  descriptor_ = file.descriptor;
  size_ = file.size;
}

FileReader::~FileReader() { ::close(descriptor_); }

std::string FileReader::read(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(descriptor_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw IoError(path_, static_cast<std::int64_t>(offset + done),
                    "cannot read: " + std::generic_category().message(errno));
    }
    if (count == 0) {
      throw IoError(path_, static_cast<std::int64_t>(offset + done),
                    "the file ends here; it was longer when it was opened");
    }
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

std::string read_small_file(const std::filesystem::path& path, std::size_t max_mebibytes) {
  const FileReader file(path);
  if (file.size() > max_mebibytes << 20) {
    throw IoError(path.string(), IoError::kNoOffset, concat("longer than ", max_mebibytes, " MiB"));
  }
  return file.read(0, static_cast<std::size_t>(file.size()));
}

}  // namespace rotary::internal
