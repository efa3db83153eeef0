// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers of the fused kernels, with the promises of rotate.h. The pairs of a head are in one
// launch. Types are float32, bfloat16 or float16.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/fused_params.h"

namespace rotary::internal::cuda {

cudaError_t fused(const FusedParams<SimpleParams>& params, cudaStream_t stream) noexcept;
cudaError_t fused(const FusedParams<TableParams>& params, cudaStream_t stream) noexcept;
cudaError_t fused(const FusedParams<GeneralParams>& params, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
