// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_heads.cuh"
#include "cuda/rotate.h"

namespace rotary::internal::cuda {

cudaError_t rotate(const TableParams& params, cudaStream_t stream) noexcept {
  return launch_dtype(params, kMaxGeneralPairs, stream);
}

}  // namespace rotary::internal::cuda
