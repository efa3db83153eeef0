// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Chooses the tuned fused kernel for a launch, and its shape.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/device/fused_step.cuh"
#include "cuda/device/fused_vectorized.cuh"
#include "cuda/launch_fused_vectorized.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"

namespace rotary::internal::cuda {

/// Warps into which a launch is split: some waves of all multiprocessors, so that they end
/// together.
inline constexpr std::int64_t kMaxFusedWarps = 30000;
/// Launches of up to so many warps with one step each are decoding steps.
inline constexpr std::int64_t kMaxStepWarps = 5000;

/// fused_step takes weights of the elements' type only.
inline bool is_decoding_step(const FusedVectorizedParams& p, std::int32_t batch,
                             bool is_float) noexcept {
  const std::int32_t warp_heads = 32 / p.angles.fragments;
  std::int64_t steps = 0;
  for (const FusedTileOperand& o : p.operands) {
    if (o.weight != nullptr && o.has_float_weight != is_float) return false;
    steps += ceil_div(o.heads, warp_heads);
  }
  return steps * p.angles.tokens * batch <= kMaxStepWarps;
}

template <class Element, Pairing kPairing, int kLanes>
cudaError_t launch_fused_vectorized(std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  bool stores = false;
  for (const FusedTileOperand& o : p.operands) stores = stores || o.store != kNoStore;
  const bool is_step = is_decoding_step(p, batch, std::is_same_v<Element, Float32>);
  const FusedVectorizedShape shape =
      is_step ? shape_fused_vectorized(batch, 1, kMaxStepWarps, p)
              : shape_fused_vectorized(batch, kFusedWarpHeads, kMaxFusedWarps, p);
  const auto kernel = is_step  ? (stores ? fused_step<Element, kPairing, kLanes, true>
                                         : fused_step<Element, kPairing, kLanes, false>)
                      : stores ? fused_vectorized<Element, kPairing, kLanes, true>
                               : fused_vectorized<Element, kPairing, kLanes, false>;
  const dim3 grid(shape.tiles, static_cast<unsigned>(batch), shape.parts);
  return launch_kernel(kernel, p, grid, dim3(32, shape.warps), shape.shared_bytes,
                       p.angles.overlaps, stream);
}

template <class Element, Pairing kPairing>
cudaError_t launch_fused_vectorized(std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  switch (p.angles.fragments) {
    case 4:
      return launch_fused_vectorized<Element, kPairing, 4>(batch, p, stream);
    case 8:
      return launch_fused_vectorized<Element, kPairing, 8>(batch, p, stream);
    case 16:
      return launch_fused_vectorized<Element, kPairing, 16>(batch, p, stream);
    default:
      return launch_fused_vectorized<Element, kPairing, 32>(batch, p, stream);
  }
}

template <class Element>
cudaError_t launch_fused_vectorized(Pairing pairing, std::int32_t batch, FusedVectorizedParams& p,
                                    cudaStream_t stream) noexcept {
  return pairing == Pairing::kHalf
             ? launch_fused_vectorized<Element, Pairing::kHalf>(batch, p, stream)
             : launch_fused_vectorized<Element, Pairing::kInterleaved>(batch, p, stream);
}

}  // namespace rotary::internal::cuda
