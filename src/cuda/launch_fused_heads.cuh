// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the general fused kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/device/fused_heads.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {

template <class Params>
cudaError_t launch_fused_heads(const Params& p, cudaStream_t stream) noexcept {
  std::int32_t head_dim = 0;
  for (int k = 0; k < p.num_operands; ++k) head_dim = std::max(head_dim, p.fused[k].head_dim);
  const std::int32_t threads =
      p.norm.across_heads ? kMaxFusedThreads
                          : std::clamp(ceil_div(head_dim / 2, 32) * 32, 64, kMaxFusedThreads);
  const std::size_t shared = (2 * padded_pairs(static_cast<std::uint32_t>(p.pair_count)) +
                              kBlockSumFloats + static_cast<std::size_t>(head_dim)) *
                             sizeof(float);
  const dim3 grid(static_cast<unsigned>(p.tokens), static_cast<unsigned>(p.batch),
                  static_cast<unsigned>(p.norm.across_heads ? p.num_operands : p.num_heads));
  return dispatch_float32_compute(p.type, [&](auto element) {
    return launch_kernel(fused_heads<decltype(element), Params>, p, grid,
                         dim3(static_cast<unsigned>(threads)), shared, p.overlaps, stream);
  });
}

/// Whether there is anything to launch; an error for sizes that do not fit one launch.
template <class Params>
bool is_empty_launch(const Params& p, int max_pairs, cudaError_t& error) noexcept {
  error = fits_launch(p, max_pairs) ? cudaSuccess : cudaErrorInvalidValue;
  return error != cudaSuccess || p.batch == 0 || p.tokens == 0 || p.num_heads == 0;
}

}  // namespace rotary::internal::cuda
