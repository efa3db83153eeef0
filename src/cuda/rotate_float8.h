// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launchers for 8-bit output. rotate() dispatches here by out_type.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/params.h"

namespace rotary::internal::cuda {

cudaError_t rotate_to_float8(const SimpleParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate_to_float8(const TableParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate_to_float8(const GeneralParams& params, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
