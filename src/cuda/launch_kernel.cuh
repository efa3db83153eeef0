// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Starting a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace rotary::internal::cuda {

/// Whether kernels hold the instruction that waits for the launch before them: only then may
/// launches overlap. Not where a GPU that they overlap on might be given PTX without it
/// (cmake/RotaryArchitectures.cmake).
constexpr bool kernels_wait() noexcept {
#if !defined(ROTARY_HAS_OLD_PTX)
  for (const int arch : {__CUDA_ARCH_LIST__}) {
    if (arch >= 900) return true;
  }
#endif
  return false;
}

template <class Params>
cudaError_t launch_kernel(void (*kernel)(Params), const Params& params, dim3 grid, dim3 block,
                          std::size_t shared, bool may_overlap, cudaStream_t stream) noexcept {
  const bool overlaps = may_overlap && kernels_wait();
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  // By pointer: the parameters can be 32 KB, and are copied once less.
  void* arguments[] = {const_cast<Params*>(&params)};
  const auto* function = reinterpret_cast<const void*>(kernel);
  const cudaError_t error = cudaLaunchKernelExC(&config, function, arguments);
  if (error == cudaSuccess || !overlaps) return error;
  config.numAttrs = 0;  // a device that launches cannot overlap on
  cudaGetLastError();   // or a later call would be told
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // namespace rotary::internal::cuda
