// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the fused kernels of a call.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/norm_kernel.h"
#include "engine/store_kernel.h"

namespace rotary::internal::cuda {

/// Return the error of the first launch that failed.
cudaError_t launch_norm(const NormParams& params, bool overlaps, cudaStream_t stream) noexcept;
cudaError_t launch_append(const AppendParams& params, bool overlaps, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
