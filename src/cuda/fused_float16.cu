// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/launch_fused_vectorized.cuh"

namespace rotary::internal::cuda {

cudaError_t launch_fused_float16(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                 cudaStream_t stream) noexcept {
  return launch_fused_vectorized<Float16>(pairing, batch, p, stream);
}

}  // namespace rotary::internal::cuda
