// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// From a job of the engine's door to launches: what the programs of this folder need of a host
// side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "rope/kernel.h"

namespace rotary::internal::cuda {

/// Pointers of the job are moved by `shift` bytes first: a job may speak of host memory that lies
/// in device memory in the same order.
cudaError_t rotate_job(const Job& job, std::ptrdiff_t shift, bool overlaps, cudaStream_t stream);

}  // namespace rotary::internal::cuda
