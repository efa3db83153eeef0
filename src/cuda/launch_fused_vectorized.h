// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The launches of fused_vectorized and fused_block, a file for each element type, as they take long
// to compile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/fused_vectorized.h"
#include "rotary/pairing.h"

namespace rotary::internal::cuda {

cudaError_t launch_fused_bfloat16(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                  cudaStream_t stream) noexcept;
cudaError_t launch_fused_float16(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                 cudaStream_t stream) noexcept;
cudaError_t launch_fused_float32(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                 cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
