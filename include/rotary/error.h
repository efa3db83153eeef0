// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What the library throws.
///
///   std::invalid_argument   the caller's fault; the text names function, rule and value:
///                           "[Rope] rotary_dim must be even, got 7"
///   rotary::IoError         a file or its content; the text begins with the path
///
/// The library never prints, exits or aborts. What throws one of these has written nothing; only a
/// std::bad_alloc, where a call is documented to allocate, can leave a result half-written.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rotary {

/// A file that cannot be read, or whose bytes break the rules of its format.
class IoError : public std::runtime_error {
 public:
  /// The offset is not known, or not about one place in the file.
  static constexpr std::int64_t kNoOffset = -1;

  IoError(std::string path, std::int64_t offset, std::string_view message);

  const std::string& path() const noexcept { return path_; }
  /// Byte at which the rule was broken, or kNoOffset.
  std::int64_t offset() const noexcept { return offset_; }

 private:
  std::string path_;
  std::int64_t offset_;
};

}  // namespace rotary
