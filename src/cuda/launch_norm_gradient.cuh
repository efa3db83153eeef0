// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Launches the gradient of a norm and the rotation after it: the tuned kernel where it applies,
// otherwise the general one.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/device/norm_gradient.cuh"
#include "cuda/device/norm_gradient_vectorized.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"
#include "cuda/norm_gradient.h"
#include "cuda/norm_gradient_vectorized.h"

namespace rotary::internal::cuda {

template <class Params>
bool is_empty_gradient(const Params& p) noexcept {
  return p.batch == 0 || p.tokens == 0 || p.num_heads == 0;
}

/// The general kernel.
template <class Params>
cudaError_t launch_gradient_heads(const Params& p, cudaStream_t stream) noexcept {
  std::int64_t size = 0;
  for (int k = 0; k < p.num_operands; ++k) {
    const std::int32_t end = k + 1 < p.num_operands ? p.first_head[k + 1] : p.num_heads;
    const std::int64_t heads = p.norm.across_heads ? end - p.first_head[k] : 1;
    size = std::max(size, heads * p.fused[k].head_dim);
  }
  const std::int64_t floats = norm_gradient_floats(size, p.has_biases) + kBlockSumFloats +
                              2 * padded_pairs(static_cast<std::uint32_t>(p.pair_count));
  const std::int64_t shared = floats * static_cast<std::int64_t>(sizeof(float));
  if (shared > kMaxNormGradientShared) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>(p.slices), static_cast<unsigned>(p.num_operands));
  return dispatch_float32_compute(p.type, [&](auto element) {
    const auto kernel = norm_gradient_heads<decltype(element), Params>;
    if (shared > 48 * 1024) {
      const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(shared));
      if (error != cudaSuccess) return error;
    }
    return launch_kernel(kernel, p, grid, dim3(kNormGradientThreads),
                         static_cast<std::size_t>(shared), p.overlaps, stream);
  });
}

template <class Element, Pairing kPairing, Angles kAngles>
cudaError_t launch_gradient_vectorized(const NormGradientVectorizedParams& p, int num_operands,
                                       const NormGradientShape& shape,
                                       cudaStream_t stream) noexcept {
  const auto kernel = shape.lanes == 4   ? norm_gradient_vectorized<Element, kPairing, 4, kAngles>
                      : shape.lanes == 8 ? norm_gradient_vectorized<Element, kPairing, 8, kAngles>
                      : shape.lanes == 16
                          ? norm_gradient_vectorized<Element, kPairing, 16, kAngles>
                          : norm_gradient_vectorized<Element, kPairing, 32, kAngles>;
  const dim3 grid(p.slices, static_cast<unsigned>(num_operands));
  return launch_kernel(kernel, p, grid, dim3(32, shape.warps), shape.shared_bytes,
                       p.angles.overlaps, stream);
}

template <Angles kAngles, class Params>
cudaError_t launch_gradient(Params& params, cudaStream_t stream) noexcept {
  if (is_empty_gradient(params)) return cudaSuccess;
  NormGradientVectorizedParams p{};
  const NormGradientShape shape = make_norm_gradient_vectorized(params, p);
  if (shape.lanes == 0) return launch_gradient_heads(params, stream);
  params.slices = static_cast<std::int32_t>(p.slices);
  return dispatch_float32_compute(params.type, [&](auto element) {
    using Element = decltype(element);
    return params.read == Pairing::kHalf
               ? launch_gradient_vectorized<Element, Pairing::kHalf, kAngles>(
                     p, params.num_operands, shape, stream)
               : launch_gradient_vectorized<Element, Pairing::kInterleaved, kAngles>(
                     p, params.num_operands, shape, stream);
  });
}

}  // namespace rotary::internal::cuda
