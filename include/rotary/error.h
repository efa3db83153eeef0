// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

/// What the library throws.
///
///   std::invalid_argument   the caller's fault; the text names function, rule and value:
///                           "[Rope] rotary_dim must be even, got 7"
///   rotary::IoError         a file or its content; the text begins with the path
///   rotary::CudaError       a kernel could not be launched; the text names function and reason
///
/// The library never prints, exits or aborts. A call that throws one of the first two has written
/// nothing. A CudaError, and a std::bad_alloc where a call is documented to allocate, can leave
/// results partly written.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rotary {

/// A file that cannot be read, or whose bytes break the rules of its format.
class IoError : public std::runtime_error {
 public:
  /// The offset is unknown, or the error concerns no single byte.
  static constexpr std::int64_t kNoOffset = -1;

  IoError(std::string path, std::int64_t offset, std::string_view message);

  const std::string& path() const noexcept { return path_; }
  /// Byte at which the rule was broken, or kNoOffset.
  std::int64_t offset() const noexcept { return offset_; }

 private:
  std::string path_;
  std::int64_t offset_;
};

/// No GPU, no driver, no kernel built for the GPU, or a stream of another device. Errors of earlier
/// kernels can surface here too.
class CudaError : public std::runtime_error {
 public:
  CudaError(std::string_view function, int code, std::string_view reason);

  /// The cudaError_t.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

}  // namespace rotary
