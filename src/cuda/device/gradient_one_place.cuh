// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The sums of a chunk of rows where a token stands at one position on all axes, and where the
// threads of a row are lanes of one warp: each thread keeps the sums of its pairs in registers, and
// nothing is exchanged before the chunk ends.
#pragma once

#include <cstdint>

#include "cuda/device/gradient.cuh"

namespace rotary::internal::cuda {

/// This thread's share of the gradient of its row's position.
template <typename T, int kPairs>
__device__ __forceinline__ double position_share(const GradientParams& p,
                                                 const HeadSums<T, kPairs>& sums,
                                                 std::int32_t first) {
  double sum = 0.0;
  for (std::int32_t a = 0; a < p.axes; ++a) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      sum += double_at(p, p.values, a, first + i) * static_cast<double>(sums.turn[i]);
      if (p.phases.growth < 0) continue;
      sum += double_at(p, p.phases.growth, a, first + i) * static_cast<double>(sums.stretch[i]);
    }
  }
  return sum;
}

/// A block is 128 threads, [slots][units], with units a power of two up to 32; blocks run over
/// chunks.
template <typename T, int kPairs, bool kHalf>
__global__ void __launch_bounds__(128, kPairs == kFloatPairs ? 4 : 1)
    sum_rows_at_one_place(const __grid_constant__ GradientParams p) {
  extern __shared__ __align__(16) double memory_of_sums[];  // [slots, pair_count]
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t units = p.pair_count / kPairs;
  const std::int32_t slots = static_cast<std::int32_t>(blockDim.x) / units;
  const std::int32_t slot = thread / units;
  const std::int32_t first = thread % units * kPairs;
  const std::int64_t begin = blockIdx.x * p.chunk_rows;
  const std::int64_t end = begin + p.chunk_rows < p.rows ? begin + p.chunk_rows : p.rows;
  double frequencies[kPairs] = {};
  double scale = 0.0;
  wait_for_previous_launch();
  for (std::int64_t tile = begin; tile < end; tile += slots) {
    const std::int64_t row = tile + slot;
    HeadSums<T, kPairs> sums{};
    if (row < end) {
      const std::int64_t batch = row / p.tokens;
      const std::int64_t token = row % p.tokens;
      const OnePlace place{any_position(p.positions, 0, batch, token)};
      sums = sum_heads<T, kPairs, kHalf>(p, place, batch, token, first);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        frequencies[i] += place.position.real * static_cast<double>(sums.turn[i]);
        scale += static_cast<double>(sums.stretch[i]);
      }
    }
    if (p.to_positions == nullptr) continue;
    double share = position_share<T, kPairs>(p, sums, first);
    for (int lanes = units / 2; lanes > 0; lanes /= 2) {
      share += __shfl_xor_sync(~0u, share, lanes);
    }
    if (first == 0 && row < end) write_position(p, row, 0, share);
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    memory_of_sums[slot * p.pair_count + first + i] = frequencies[i];
  }
  __syncthreads();
  for (std::int32_t i = thread; p.wants_frequencies && i < p.pair_count;
       i += static_cast<std::int32_t>(blockDim.x)) {
    double sum = 0.0;
    for (std::int32_t k = 0; k < slots; ++k) sum += memory_of_sums[k * p.pair_count + i];
    for (std::int32_t a = 0; a < p.axes; ++a) {
      double& to = sum_of(p, a, i);
      to = p.adds_to_frequencies ? to + sum : sum;
    }
  }
  if (p.wants_scale) write_scale(p, scale);
}

}  // namespace rotary::internal::cuda
