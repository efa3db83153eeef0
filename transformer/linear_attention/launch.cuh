// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launch of a kernel with dynamic shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace rotary::transformer::cuda {

/// Launches with sizeof(Shared) bytes of dynamic shared memory, more than 48 KiB where the GPU has
/// them. Returns a cudaError_t.
template <typename Shared, typename Kernel, typename... Arguments>
int launch_with_shared(Kernel kernel, std::int64_t blocks, int threads, void* stream,
                       const Arguments&... arguments) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(blocks), threads, sizeof(Shared),
           static_cast<cudaStream_t>(stream)>>>(arguments...);
  return cudaGetLastError();
}

}  // namespace rotary::transformer::cuda
