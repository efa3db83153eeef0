// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the kernels of a rotation.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/kernel.h"

namespace rotary::internal::cuda {

/// Returns the error of the first launch that failed.
cudaError_t launch_rotation(const RotateParams& params, bool overlaps,
                            cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
