// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches whose results are 8-bit; rotate() comes here by itself.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/params.h"

namespace rotary::internal::cuda {

cudaError_t rotate_to_float8(const SimpleParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate_to_float8(const TableParams& params, cudaStream_t stream) noexcept;
cudaError_t rotate_to_float8(const AnyParams& params, cudaStream_t stream) noexcept;

}  // namespace rotary::internal::cuda
