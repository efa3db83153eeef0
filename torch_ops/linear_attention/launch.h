// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What every launch of a CUDA kernel needs. For builds with kernels alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include "linear_attention/sums_cuda.h"

namespace rotary::torch {

inline void* stream_for(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.get_device()).stream();
}

inline void check_launch(int error) {
  TORCH_CHECK(error == 0, "[linear_attention] CUDA says: ", cuda::error_text(error));
}

}  // namespace rotary::torch
