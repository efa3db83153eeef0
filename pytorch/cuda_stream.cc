// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "pytorch/cuda_stream.h"

#include <c10/util/Exception.h>

#ifdef ROTARY_TORCH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace rotary::torch {

Stream stream_of(const at::Tensor& x) {
#ifdef ROTARY_TORCH_CUDA
  if (x.is_cuda()) {
    // Kernels wait for earlier work of the stream themselves: programmatic launch is always safe.
    return {.handle = c10::cuda::getCurrentCUDAStream(x.get_device()).stream(), .overlap = true};
  }
#endif
  TORCH_CHECK(!x.is_cuda(), "rotary's PyTorch operators were built without CUDA");
  return {};
}

}  // namespace rotary::torch
