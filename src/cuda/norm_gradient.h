// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradient of a norm and the rotation after it. Launchers with the promises of rotate.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/norm_gradient_params.h"
#include "engine/norm_kernel.h"

namespace rotary::internal::cuda {

/// Lowers params.slices to those that it writes.
cudaError_t norm_gradient(NormGradientParams<SimpleParams>& params, cudaStream_t stream) noexcept;
cudaError_t norm_gradient(NormGradientParams<TableParams>& params, cudaStream_t stream) noexcept;
cudaError_t norm_gradient(NormGradientParams<GeneralParams>& params, cudaStream_t stream) noexcept;
cudaError_t norm_gradient_sums(const NormSumParams& params, cudaStream_t stream) noexcept;

/// The launches of a call.
cudaError_t launch_norm_gradient(const NormParams& params,
                                 std::span<const NormGradientTensors> tensors,
                                 std::span<std::byte> workspace, bool overlaps,
                                 cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
