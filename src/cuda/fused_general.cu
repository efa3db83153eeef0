// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/fused.h"
#include "cuda/launch_fused_heads.cuh"

namespace rotary::internal::cuda {

cudaError_t fused(const FusedParams<GeneralParams>& params, cudaStream_t stream) noexcept {
  cudaError_t error = cudaSuccess;
  if (is_empty_launch(params, kMaxGeneralPairs, error)) return error;
  return launch_fused_heads(params, stream);
}

}  // namespace rotary::internal::cuda
