// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// rotary::IoError and rotary::CudaError.
#include "rotary/error.h"

#include <utility>

namespace rotary {
namespace {

std::string describe(const std::string& path, std::int64_t offset, std::string_view message) {
  std::string text = path;
  text.append(": ").append(message);
  if (offset != IoError::kNoOffset) {
    text.append(" (at byte ").append(std::to_string(offset)).append(")");
  }
  return text;
}

}  // namespace

IoError::IoError(std::string path, std::int64_t offset, std::string_view message)
    : std::runtime_error(describe(path, offset, message)),
      path_(std::move(path)),
      offset_(offset) {}

CudaError::CudaError(std::string_view function, int code, std::string_view reason)
    : std::runtime_error(std::string("[").append(function).append("] CUDA: ").append(reason)),
      code_(code) {}

}  // namespace rotary
