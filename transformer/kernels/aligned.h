// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Alignment of tensors that kernels read and write in 16-byte accesses.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace rotary::transformer {

inline bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

/// Contiguous and aligned to 16 bytes: x itself, or a copy.
inline at::Tensor aligned(const at::Tensor& x) {
  const at::Tensor y = x.contiguous();
  return is_aligned(y) ? y : y.clone();
}
inline std::optional<at::Tensor> aligned(const std::optional<at::Tensor>& x) {
  return x ? std::make_optional(aligned(*x)) : std::nullopt;
}

}  // namespace rotary::transformer
