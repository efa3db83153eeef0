// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime.h>

namespace rotary::transformer::cuda {

const char* error_string(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace rotary::transformer::cuda
