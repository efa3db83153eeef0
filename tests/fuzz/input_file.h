// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The input of a fuzz target as a file in memory, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace rotary::fuzz {

class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : descriptor_(::memfd_create("input", 0)) {
    const bool written = descriptor_ >= 0 && ::write(descriptor_, bytes.data(), bytes.size()) ==
                                                 static_cast<ssize_t>(bytes.size());
    if (!written) std::abort();
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace rotary::fuzz
