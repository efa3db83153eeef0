// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The launches. Each starts one kernel on `stream` and returns what starting it returned; it
// allocates nothing, waits for nothing, asks the device nothing, and reads no memory of the caller,
// so that it can be captured into a graph. Sizes of zero are no launch and no error.
//
// cudaErrorInvalidValue, which the caller's checks rule out: more operands, pairs, batch rows or
// tokens than one launch takes, and in place with two pairings while the pairs of a head are split
// over several launches (a pair's target would be another one's source).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/params.h"

namespace rotary::internal::cuda {

cudaError_t rotate(const SimpleParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate(const TableParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate(const AnyParams& params, cudaStream_t stream) noexcept;

/// Puts the rotary slices of all operands, which are in place, from the pairing `read` into the
/// pairing `write`.
cudaError_t reorder(const RotateParams& params, cudaStream_t stream) noexcept;

/// Fills cos and sin of the launch's pairs, at most kAnyPairs; `type` is theirs.
cudaError_t cos_sin(const CosSinParams& params, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
