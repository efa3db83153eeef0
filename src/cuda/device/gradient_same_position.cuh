// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradient sums over a chunk of rows whose tokens have the same position on all axes, and where the
// threads of a row are lanes of one warp. Each thread accumulates its pairs in registers; the block
// reduces once, at the end of the chunk.
#pragma once

#include <cstdint>

#include "cuda/device/gradient.cuh"

namespace rotary::internal::cuda {

/// This thread's share of the gradient of its row's position.
template <typename T, int kPairs>
__device__ __forceinline__ double partial_position_grad(const GradientKernelParams& p,
                                                        const HeadGradients<T, kPairs>& sums,
                                                        std::int32_t first) {
  double sum = 0.0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      sum += double_at(p, p.frequency_plane, a, first + i) * static_cast<double>(sums.phase[i]);
      if (p.phases.growth < 0) continue;
      sum +=
          double_at(p, p.phases.growth, a, first + i) * static_cast<double>(sums.log_magnitude[i]);
    }
  }
  return sum;
}

/// One block of 128 threads per chunk: [tile rows][fragments of a head], with a power of two of up
/// to 32 fragments.
template <typename T, int kPairs, bool kHalf>
__global__ void __launch_bounds__(128, kPairs == kFloatPairsPerThread ? 4 : 1)
    sum_gradient_rows_same_position(const __grid_constant__ GradientKernelParams p) {
  extern __shared__ __align__(16) double shared_sums[];  // [tile rows, pair_count]
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t fragments = p.pair_count / kPairs;
  const std::int32_t tile_rows = static_cast<std::int32_t>(blockDim.x) / fragments;
  const std::int32_t tile_row = thread / fragments;
  const std::int32_t first = thread % fragments * kPairs;
  const std::int64_t begin = blockIdx.x * p.chunk_rows;
  const std::int64_t end = begin + p.chunk_rows < p.rows ? begin + p.chunk_rows : p.rows;
  double frequencies[kPairs] = {};
  double scale = 0.0;
  wait_on_dependent_grids();
  for (std::int64_t tile = begin; tile < end; tile += tile_rows) {
    const std::int64_t row = tile + tile_row;
    HeadGradients<T, kPairs> sums{};
    if (row < end) {
      const std::int64_t batch = row / p.tokens;
      const std::int64_t token = row % p.tokens;
      const SamePosition position{load_position(p.positions, 0, batch, token)};
      sums = sum_heads<T, kPairs, kHalf>(p, position, batch, token, first);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        frequencies[i] += position.value.real * static_cast<double>(sums.phase[i]);
        scale += static_cast<double>(sums.log_magnitude[i]);
      }
    }
    if (p.position_grads == nullptr) continue;
    double grad = partial_position_grad<T, kPairs>(p, sums, first);
    for (int lanes = fragments / 2; lanes > 0; lanes /= 2) {
      grad += __shfl_xor_sync(~0u, grad, lanes);
    }
    if (first == 0 && row < end) write_position(p, row, 0, grad);
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    shared_sums[tile_row * p.pair_count + first + i] = frequencies[i];
  }
  __syncthreads();
  for (std::int32_t i = thread; p.wants_frequencies && i < p.pair_count;
       i += static_cast<std::int32_t>(blockDim.x)) {
    double sum = 0.0;
    for (std::int32_t k = 0; k < tile_rows; ++k) sum += shared_sums[k * p.pair_count + i];
    for (std::int32_t a = 0; a < p.axes; ++a) {
      double& to = partial_sum(p, a, i);
      to = p.accumulates_frequencies ? to + sum : sum;
    }
  }
  if (p.wants_scale) write_scale(p, scale);
}

}  // namespace rotary::internal::cuda
