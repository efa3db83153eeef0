// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/norm_gradient.cuh"
#include "cuda/device/norm_gradient_vectorized.cuh"
#include "cuda/dispatch.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/launch_shape.h"
#include "cuda/norm_gradient.h"
#include "cuda/norm_gradient_vectorized.h"

namespace rotary::internal::cuda {
namespace {

template <class Params>
cudaError_t launch_gradient(const Params& p, cudaStream_t stream) noexcept {
  if (p.batch == 0 || p.tokens == 0 || p.num_heads == 0) return cudaSuccess;
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

template <class Element, Pairing kPairing>
cudaError_t launch_vectorized(const NormGradientVectorizedParams& p, int num_operands,
                              const NormGradientShape& shape, cudaStream_t stream) noexcept {
  const auto kernel = shape.lanes == 4    ? norm_gradient_vectorized<Element, kPairing, 4>
                      : shape.lanes == 8  ? norm_gradient_vectorized<Element, kPairing, 8>
                      : shape.lanes == 16 ? norm_gradient_vectorized<Element, kPairing, 16>
                                          : norm_gradient_vectorized<Element, kPairing, 32>;
  const dim3 grid(p.slices, static_cast<unsigned>(num_operands));
  return launch_kernel(kernel, p, grid, dim3(32, shape.warps), shape.shared_bytes,
                       p.angles.overlaps, stream);
}

}  // namespace

cudaError_t norm_gradient(NormGradientParams<SimpleParams>& params, cudaStream_t stream) noexcept {
  if (params.batch == 0 || params.tokens == 0 || params.num_heads == 0) return cudaSuccess;
  NormGradientVectorizedParams p{};
  const NormGradientShape shape = make_norm_gradient_vectorized(params, p);
  if (shape.lanes == 0) return launch_gradient(params, stream);
  params.slices = static_cast<std::int32_t>(p.slices);
  return dispatch_float32_compute(params.type, [&](auto element) {
    using Element = decltype(element);
    return params.read == Pairing::kHalf
               ? launch_vectorized<Element, Pairing::kHalf>(p, params.num_operands, shape, stream)
               : launch_vectorized<Element, Pairing::kInterleaved>(p, params.num_operands, shape,
                                                                   stream);
  });
}

cudaError_t norm_gradient(NormGradientParams<GeneralParams>& params, cudaStream_t stream) noexcept {
  return launch_gradient(params, stream);
}

cudaError_t norm_gradient_sums(const NormSumParams& params, cudaStream_t stream) noexcept {
  std::int32_t count = 0;
  for (const NormSumParams::Part& part : params.parts) count = std::max(count, part.count);
  if (count == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(ceil_div(count, kSumElements)),
                  static_cast<unsigned>(params.num_parts));
  constexpr std::size_t kShared = sizeof(double) * kSumElements * kSumParts;
  return launch_kernel(sum_norm_gradients, params, grid, dim3(kSumElements, kSumParts), kShared,
                       params.overlaps, stream);
}

}  // namespace rotary::internal::cuda
