// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norm, rotation and store by the caller's cos and sin: fused_vectorized where it applies,
// otherwise the general kernel.

#include <cstddef>

#include "cuda/device/fused_vectorized.cuh"
#include "cuda/fused.h"
#include "cuda/fused_vectorized.h"
#include "cuda/launch_fused_heads.cuh"

namespace rotary::internal::cuda {
namespace {

template <class Element, Pairing kPairing, int kLanes>
cudaError_t launch_table(std::int32_t batch, FusedVectorizedParams& p,
                         cudaStream_t stream) noexcept {
  const FusedVectorizedShape shape =
      shape_fused_vectorized(batch, kFusedHeadsPerThread, kMaxFusedWarps, kFusedPrefetch, p);
  const dim3 grid(static_cast<unsigned>(p.angles.tokens), static_cast<unsigned>(batch),
                  shape.parts);
  constexpr std::size_t kShared = 4 * kLanes * Element::kPerPack * sizeof(float);
  return launch_kernel(fused_vectorized<Element, kPairing, kLanes, false, Angles::kTable>, p, grid,
                       dim3(32), kShared, p.angles.overlaps, stream);
}

template <class Element, Pairing kPairing>
cudaError_t launch_table(std::int32_t batch, FusedVectorizedParams& p,
                         cudaStream_t stream) noexcept {
  switch (p.angles.fragments) {
    case 4:
      return launch_table<Element, kPairing, 4>(batch, p, stream);
    case 8:
      return launch_table<Element, kPairing, 8>(batch, p, stream);
    case 16:
      return launch_table<Element, kPairing, 16>(batch, p, stream);
    default:
      return launch_table<Element, kPairing, 32>(batch, p, stream);
  }
}

}  // namespace

cudaError_t fused(const FusedParams<TableParams>& params, cudaStream_t stream) noexcept {
  cudaError_t error = cudaSuccess;
  if (is_empty_launch(params, kMaxGeneralPairs, error)) return error;
  FusedVectorizedParams p{};
  if (!make_fused_vectorized(params, p)) return launch_fused_heads(params, stream);
  return dispatch_float32_compute(params.type, [&](auto element) {
    using Element = decltype(element);
    return params.read == Pairing::kHalf
               ? launch_table<Element, Pairing::kHalf>(params.batch, p, stream)
               : launch_table<Element, Pairing::kInterleaved>(params.batch, p, stream);
  });
}

}  // namespace rotary::internal::cuda
