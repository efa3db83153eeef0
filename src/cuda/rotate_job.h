// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A job of the engine's door as launches.
#pragma once

#include <cuda_runtime_api.h>

#include "rope/kernel.h"

namespace rotary::internal::cuda {

/// Returns what the first launch that failed returned.
cudaError_t rotate_job(const Job& job, bool overlaps, cudaStream_t stream) noexcept;

/// Whether all pairs of a head must be in one launch, but do not fit: in place with two pairings,
/// where a pair's target is another one's source. The head is then turned in place in several
/// launches, and its elements put in order by one more.
bool needs_reorder(const Job& job) noexcept;

}  // namespace rotary::internal::cuda
