// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/gradient.cuh"
#include "cuda/device/gradient_same_position.cuh"
#include "cuda/gradient.h"
#include "cuda/launch_kernel.cuh"

namespace rotary::internal::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// One block per entry: each thread sums every 128th chunk, then a tree reduction in shared memory.
__global__ void __launch_bounds__(kThreads)
    reduce_chunks_kernel(const __grid_constant__ ChunkReductionParams p) {
  __shared__ double sums[kThreads];
  const std::int64_t entry = blockIdx.x + (p.frequencies == nullptr ? p.entries : 0);
  wait_on_dependent_grids();
  double sum = 0.0;
  for (std::int64_t k = threadIdx.x; k < p.chunks; k += kThreads) {
    sum += p.partial_sums[entry * p.chunks + k];
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  if (entry < p.entries) {
    p.frequencies[entry] = sums[0];
  } else {
    *p.scale = sums[0] / p.divisor;
  }
}

/// One thread per token; grid: [axes][tiles of tokens].
__global__ void __launch_bounds__(kThreads)
    reduce_batches_kernel(const __grid_constant__ BatchReductionParams p) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t axis = blockIdx.y;
  wait_on_dependent_grids();
  if (token >= p.tokens) return;
  double sum = 0.0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    sum += p.from[(axis * p.batch + b) * p.tokens + token];
  }
  p.to[axis * p.to_axis + token * p.to_token] = sum;
}

template <typename T, int kPairs, bool kHalf>
cudaError_t launch(const GradientKernelParams& p, cudaStream_t stream) noexcept {
  const int fragments = p.pair_count / kPairs;
  const dim3 grid(static_cast<unsigned>(p.chunks));
  if constexpr (kPairs > 1) {
    if (p.same_position && fragments <= 32 && (fragments & (fragments - 1)) == 0) {
      const std::size_t shared = kThreads * kPairs * sizeof(double);
      return launch_kernel(sum_gradient_rows_same_position<T, kPairs, kHalf>, p, grid,
                           dim3(kThreads), shared, p.overlaps, stream);
    }
  }
  constexpr int kDefault = static_cast<int>(kThreads);
  const int threads = fragments <= kDefault ? kDefault : (fragments + 31) / 32 * 32;
  const auto tile_size = static_cast<std::size_t>(
      GradientTile::size(threads, threads / fragments, p.axes, p.pair_count));
  return launch_kernel(sum_gradient_rows<T, kPairs, kHalf>, p, grid,
                       dim3(static_cast<unsigned>(threads)), tile_size * sizeof(double), p.overlaps,
                       stream);
}

template <typename T, int kPairs>
cudaError_t launch_pairing(const GradientKernelParams& p, cudaStream_t stream) noexcept {
  if (!p.vectorized) return launch<T, 1, true>(p, stream);
  return p.read == Pairing::kHalf ? launch<T, kPairs, true>(p, stream)
                                  : launch<T, kPairs, false>(p, stream);
}

}  // namespace

cudaError_t sum_gradients(const GradientKernelParams& params, bool is_double,
                          cudaStream_t stream) noexcept {
  if (params.chunks == 0) return cudaSuccess;
  return is_double ? launch_pairing<double, kDoublePairsPerThread>(params, stream)
                   : launch_pairing<float, kFloatPairsPerThread>(params, stream);
}

cudaError_t reduce_chunks(const ChunkReductionParams& params, cudaStream_t stream) noexcept {
  const std::int64_t entries =
      (params.frequencies != nullptr ? params.entries : 0) + (params.scale != nullptr ? 1 : 0);
  if (entries == 0) return cudaSuccess;
  return launch_kernel(reduce_chunks_kernel, params, dim3(static_cast<unsigned>(entries)),
                       dim3(kThreads), 0, params.overlaps, stream);
}

cudaError_t reduce_batches(const BatchReductionParams& params, cudaStream_t stream) noexcept {
  if (params.tokens == 0 || params.axes == 0) return cudaSuccess;
  const auto tiles = (params.tokens + kThreads - 1) / kThreads;
  return launch_kernel(reduce_batches_kernel, params,
                       dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(params.axes)),
                       dim3(kThreads), 0, params.overlaps, stream);
}

}  // namespace rotary::internal::cuda
