// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/norm_gradient_sums.cuh"
#include "cuda/launch_norm_gradient.cuh"

namespace rotary::internal::cuda {

cudaError_t norm_gradient(NormGradientParams<SimpleParams>& params, cudaStream_t stream) noexcept {
  return launch_gradient<Angles::kFrequencies>(params, stream);
}

cudaError_t norm_gradient(NormGradientParams<GeneralParams>& params, cudaStream_t stream) noexcept {
  return is_empty_gradient(params) ? cudaSuccess : launch_gradient_heads(params, stream);
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
