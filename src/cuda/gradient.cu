// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

#include "cuda/device/gradient.cuh"
#include "cuda/device/gradient_one_place.cuh"
#include "cuda/gradient.h"
#include "cuda/launch_kernel.cuh"

namespace rotary::internal::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// A block an entry: a thread adds every 128th chunk, then all of them are added in halves.
__global__ void __launch_bounds__(kThreads) add_chunks_of(const __grid_constant__ SumParams p) {
  __shared__ double parts[kThreads];
  const std::int64_t entry = blockIdx.x + (p.frequencies == nullptr ? p.entries : 0);
  wait_for_previous_launch();
  double sum = 0.0;
  for (std::int64_t k = threadIdx.x; k < p.chunks; k += kThreads) {
    sum += p.sums[entry * p.chunks + k];
  }
  parts[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  if (entry < p.entries) {
    p.frequencies[entry] = parts[0];
  } else {
    *p.scale = parts[0] / p.divisor;
  }
}

/// A thread a token; blocks run over tokens and axes.
__global__ void __launch_bounds__(kThreads)
    add_batches_of(const __grid_constant__ BatchSumParams p) {
  const std::int64_t token = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t axis = blockIdx.y;
  wait_for_previous_launch();
  if (token >= p.tokens) return;
  double sum = 0.0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    sum += p.from[(axis * p.batch + b) * p.tokens + token];
  }
  p.to[axis * p.to_axis + token * p.to_token] = sum;
}

template <typename T, int kPairs, bool kHalf>
cudaError_t launch(const GradientParams& p, cudaStream_t stream) noexcept {
  const int units = p.pair_count / kPairs;
  const dim3 grid(static_cast<unsigned>(p.chunks));
  if constexpr (kPairs > 1) {
    if (p.one_place && units <= 32 && (units & (units - 1)) == 0) {
      const std::size_t shared = kThreads * kPairs * sizeof(double);
      return launch_kernel(sum_rows_at_one_place<T, kPairs, kHalf>, p, grid, dim3(kThreads), shared,
                           p.overlaps, stream);
    }
  }
  constexpr int kUsual = static_cast<int>(kThreads);
  const int threads = units <= kUsual ? kUsual : (units + 31) / 32 * 32;
  const auto doubles = static_cast<std::size_t>(
      GradientMemory::size(threads, threads / units, p.axes, p.pair_count));
  return launch_kernel(sum_rows<T, kPairs, kHalf>, p, grid, dim3(static_cast<unsigned>(threads)),
                       doubles * sizeof(double), p.overlaps, stream);
}

template <typename T, int kPairs>
cudaError_t launch_pairing(const GradientParams& p, cudaStream_t stream) noexcept {
  if (!p.packed) return launch<T, 1, true>(p, stream);
  return p.read == Pairing::kHalf ? launch<T, kPairs, true>(p, stream)
                                  : launch<T, kPairs, false>(p, stream);
}

}  // namespace

cudaError_t sum_gradients(const GradientParams& params, bool is_double,
                          cudaStream_t stream) noexcept {
  if (params.chunks == 0) return cudaSuccess;
  return is_double ? launch_pairing<double, kDoublePairs>(params, stream)
                   : launch_pairing<float, kFloatPairs>(params, stream);
}

cudaError_t add_chunks(const SumParams& params, cudaStream_t stream) noexcept {
  const std::int64_t entries =
      (params.frequencies != nullptr ? params.entries : 0) + (params.scale != nullptr ? 1 : 0);
  if (entries == 0) return cudaSuccess;
  return launch_kernel(add_chunks_of, params, dim3(static_cast<unsigned>(entries)), dim3(kThreads),
                       0, params.overlaps, stream);
}

cudaError_t add_batches(const BatchSumParams& params, cudaStream_t stream) noexcept {
  if (params.tokens == 0 || params.axes == 0) return cudaSuccess;
  const auto tiles = (params.tokens + kThreads - 1) / kThreads;
  return launch_kernel(add_batches_of, params,
                       dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(params.axes)),
                       dim3(kThreads), 0, params.overlaps, stream);
}

}  // namespace rotary::internal::cuda
