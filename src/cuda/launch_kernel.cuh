// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The one place where src/cuda launches kernels. Launchers return its cudaError_t unchanged;
// engine.cc turns it into an exception.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace rotary::internal::cuda {

/// Whether the compiled kernels contain griddepcontrol.wait: only then may launches overlap. False
/// if a GPU that supports programmatic dependent launch could be given PTX without it
/// (cmake/RotaryArchitectures.cmake).
constexpr bool kernels_support_pdl() noexcept {
#if !defined(ROTARY_HAS_OLD_PTX)
  for (const int arch : {__CUDA_ARCH_LIST__}) {
    if (arch >= 900) return true;
  }
#endif
  return false;
}

/// Launches `kernel` with `shared` bytes of dynamic shared memory. `may_overlap` requests
/// programmatic dependent launch; devices without it get an ordinary launch.
template <class Params>
cudaError_t launch_kernel(void (*kernel)(Params), const Params& params, dim3 grid, dim3 block,
                          std::size_t shared, bool may_overlap, cudaStream_t stream) noexcept {
  const bool overlaps = may_overlap && kernels_support_pdl();
  cudaLaunchAttribute pdl{};
  pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  pdl.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &pdl;
  config.numAttrs = overlaps ? 1 : 0;
  // By pointer, which saves a copy: the parameters can be 32 KB.
  void* arguments[] = {const_cast<Params*>(&params)};
  const auto* function = reinterpret_cast<const void*>(kernel);
  const cudaError_t error = cudaLaunchKernelExC(&config, function, arguments);
  if (error == cudaSuccess || !overlaps) return error;
  config.numAttrs = 0;  // the device may not support programmatic dependent launch
  cudaGetLastError();   // clears the error, so that no later call reports it
  return cudaLaunchKernelExC(&config, function, arguments);
}

}  // namespace rotary::internal::cuda
