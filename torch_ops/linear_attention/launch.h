// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What every launch of a CUDA kernel needs. For builds with kernels alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

#include "linear_attention/sums_cuda.h"

namespace rotary::torch {

inline void* stream_for(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.get_device()).stream();
}

inline cuda::Type type_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return cuda::Type::kDouble;
    case at::kBFloat16:
      return cuda::Type::kBFloat16;
    case at::kHalf:
      return cuda::Type::kFloat16;
    default:
      return cuda::Type::kFloat;
  }
}

inline const void* pointer(const std::optional<at::Tensor>& x) {
  return x.has_value() ? x->const_data_ptr() : nullptr;
}

inline void check_launch(int error) {
  TORCH_CHECK(error == 0, "[linear_attention] CUDA says: ", cuda::error_text(error));
}

}  // namespace rotary::torch
