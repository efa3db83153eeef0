// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Arguments of kernel launchers from tensors. For builds with kernels only.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "pytorch/cuda_stream.h"
#include "transformer/kernels/launch.h"

namespace rotary::transformer {

inline void* stream_for(const at::Tensor& x) { return torch::stream_of(x).handle; }

/// Null where x is undefined or absent.
inline const void* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}
inline const void* data_or_null(const std::optional<at::Tensor>& x) {
  return x.has_value() ? x->const_data_ptr() : nullptr;
}

}  // namespace rotary::transformer
