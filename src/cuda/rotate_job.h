// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A job of the engine's door as launches.
#pragma once

#include <cuda_runtime_api.h>

#include "rope/kernel.h"

namespace rotary::internal::cuda {

/// Returns what the first launch that failed returned.
cudaError_t rotate_job(const Job& job, bool overlaps, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
