// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers. Each launches one kernel on `stream` and returns the launch's error. No allocation, no
// synchronisation, no device query, no access to the caller's memory, so that launches can be
// captured into a graph. Sizes of zero are neither a launch nor an error.
//
// cudaErrorInvalidValue, which the caller's checks rule out: more operands, pairs, batch rows or
// tokens than fit one launch; in place with a change of pairing while the pairs of a head are split
// over several launches (a pair's output would overwrite another pair's input).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/params.h"

namespace rotary::internal::cuda {

cudaError_t rotate(const SimpleParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate(const TableParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate(const GeneralParams& params, cudaStream_t stream) noexcept;

/// Permutes the rotary slices of all operands, in place, from the pairing `read` to the pairing
/// `write`.
cudaError_t reorder(const KernelParams& params, cudaStream_t stream) noexcept;

/// Fills cos and sin of the launch's pairs, at most kMaxGeneralPairs; `type` is the output's.
cudaError_t cos_sin(const CosSinParams& params, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
