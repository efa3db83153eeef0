// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// In place of the library's: runs the blocks of a grid one after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "launches.h"

namespace rotary::internal::cuda {

template <class Params>
cudaError_t launch_kernel(void (*kernel)(Params), const Params& params, dim3 grid, dim3 block,
                          std::size_t shared, bool /*may_overlap*/,
                          cudaStream_t /*stream*/) noexcept {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x * block.y * block.z > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  if (!emulated::allocate_shared(shared)) return cudaErrorInvalidValue;
  emulated::record_launch(reinterpret_cast<const void*>(kernel));
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        emulated::run_block(block, [&] { kernel(params); });
      }
    }
  }
  return cudaSuccess;
}

}  // namespace rotary::internal::cuda
