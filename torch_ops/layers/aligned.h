// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace rotary::torch {

/// Without gaps, from an address that is a multiple of 16.
inline at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor y = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(y.const_data_ptr()) % 16 == 0 ? y : y.clone();
}
inline std::optional<at::Tensor> aligned(const std::optional<at::Tensor>& x) {
  return x ? std::make_optional(aligned(*x)) : std::nullopt;
}

}  // namespace rotary::torch
