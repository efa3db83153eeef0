// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The sums of a chunk of rows, whatever the positions. A block goes through its chunk in tiles of a
// few rows: its threads sum turn and stretch over heads, put them into shared memory as doubles,
// and from there they are spread over frequencies, positions and scale. Every entry has its
// threads, so that the order of all additions is fixed. gradient_one_place.cuh is quicker.
#pragma once

#include <cstdint>

#include "cuda/device/any_row.cuh"
#include "cuda/device/blocks.cuh"
#include "cuda/device/gradient_heads.cuh"
#include "cuda/gradient.h"

namespace rotary::internal::cuda {

/// What a block keeps in shared memory, all doubles.
struct GradientMemory {
  std::int32_t slots;   // rows of a tile
  std::int32_t groups;  // of threads that share the slots of an entry
  double* turns;        // [slots, pair_count]
  double* stretches;    // [slots, pair_count]
  double* places;       // [slots, axes]
  double* frequencies;  // [groups, axes, pair_count]

  static __host__ __device__ std::int32_t groups_of(std::int32_t threads, std::int32_t entries) {
    return threads / entries > 1 ? threads / entries : 1;
  }
  static __host__ std::int32_t size(std::int32_t threads, std::int32_t num_slots, std::int32_t axes,
                                    std::int32_t pairs) {
    return num_slots * (2 * pairs + axes) + groups_of(threads, axes * pairs) * axes * pairs;
  }
  __device__ GradientMemory(const GradientParams& p, double* memory, std::int32_t num_slots)
      : slots(num_slots),
        groups(groups_of(static_cast<std::int32_t>(blockDim.x), p.axes * p.pair_count)),
        turns(memory),
        stretches(turns + slots * p.pair_count),
        places(stretches + slots * p.pair_count),
        frequencies(places + slots * p.axes) {}
};

/// The sum over a warp, in all its lanes.
__device__ __forceinline__ double warp_sum(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

__device__ __forceinline__ double double_at(const GradientParams& p, std::int32_t plane,
                                            std::int32_t axis, std::int32_t i) {
  return __longlong_as_double(static_cast<std::int64_t>(word_at(p, plane, axis, i)));
}

/// A few threads an entry, each for its share of the slots.
__device__ inline void add_frequencies(const GradientParams& p, const GradientMemory& m) {
  const std::int32_t entries = p.axes * p.pair_count;
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t end = m.groups > 1 ? m.groups * entries : entries;
  for (auto at = static_cast<std::int32_t>(threadIdx.x); at < end; at += threads) {
    const std::int32_t e = at % entries;
    const std::int32_t axis = e / p.pair_count;
    const std::int32_t i = e % p.pair_count;
    double sum = m.frequencies[at];
    for (std::int32_t slot = at / entries; slot < m.slots; slot += m.groups) {
      sum += m.places[slot * p.axes + axis] * m.turns[slot * p.pair_count + i];
    }
    m.frequencies[at] = sum;
  }
}

/// Where the gradient of a row's position goes.
__device__ __forceinline__ void write_position(const GradientParams& p, std::int64_t row,
                                               std::int32_t axis, double sum) {
  double* const to = p.to_positions + axis * p.position_strides[0] +
                     row / p.tokens * p.position_strides[1] +
                     row % p.tokens * p.position_strides[2];
  *to = p.adds_to_others ? *to + sum : sum;
}

/// A warp for a row and axis.
__device__ inline void write_positions(const GradientParams& p, const GradientMemory& m,
                                       std::int64_t first_row, std::int64_t end) {
  const std::int32_t lane = threadIdx.x % 32;
  const std::int32_t warps = blockDim.x / 32;
  const bool together = p.position_axes != p.axes;
  for (std::int32_t k = threadIdx.x / 32; k < m.slots * p.position_axes; k += warps) {
    const std::int32_t slot = k / p.position_axes;
    const std::int32_t axis = k % p.position_axes;
    if (first_row + slot >= end) continue;
    double sum = 0.0;
    for (std::int32_t a = axis; a < (together ? p.axes : axis + 1); ++a) {
      for (std::int32_t i = lane; i < p.pair_count; i += 32) {
        sum += double_at(p, p.values, a, i) * m.turns[slot * p.pair_count + i];
        if (p.phases.growth < 0) continue;
        sum += double_at(p, p.phases.growth, a, i) * m.stretches[slot * p.pair_count + i];
      }
    }
    sum = warp_sum(sum);
    if (lane == 0) write_position(p, first_row + slot, axis, sum);
  }
}

/// Row of the sums that an entry of the launch belongs to.
__device__ __forceinline__ double& sum_of(const GradientParams& p, std::int32_t axis,
                                          std::int32_t i) {
  const std::int64_t pair = p.first_pair + i;
  return p.sums[(pair * p.axes + axis) * p.chunks + blockIdx.x];
}

/// The block's stretch; `scale` is this thread's share.
__device__ inline void write_scale(const GradientParams& p, double scale) {
  __shared__ double parts[16];
  scale = warp_sum(scale);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = scale;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0.0;
  for (std::uint32_t w = 0; w < blockDim.x / 32; ++w) sum += parts[w];
  double& to = p.sums[static_cast<std::int64_t>(p.pairs) * p.axes * p.chunks + blockIdx.x];
  to = p.adds_to_others ? to + sum : sum;
}

__device__ inline void write_frequencies(const GradientParams& p, const GradientMemory& m) {
  const std::int32_t entries = p.axes * p.pair_count;
  for (auto e = static_cast<std::int32_t>(threadIdx.x); e < entries;
       e += static_cast<std::int32_t>(blockDim.x)) {
    double sum = 0.0;
    for (std::int32_t g = 0; g < m.groups; ++g) sum += m.frequencies[g * entries + e];
    double& to = sum_of(p, e / p.pair_count, e % p.pair_count);
    to = p.adds_to_frequencies ? to + sum : sum;
  }
}

/// Threads of a block are [slots][units] and some to spare; blocks run over chunks.
template <typename T, int kPairs, bool kHalf>
__global__ void __launch_bounds__(kPairs == kFloatPairs ? 128 : 512)
    sum_rows(const __grid_constant__ GradientParams p) {
  extern __shared__ __align__(16) double memory_of_sums[];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t units = p.pair_count / kPairs;
  const GradientMemory m(p, memory_of_sums, threads / units);
  const std::int32_t slot = thread / units;
  const std::int32_t first = thread % units * kPairs;
  const std::int64_t begin = blockIdx.x * p.chunk_rows;
  const std::int64_t end = begin + p.chunk_rows < p.rows ? begin + p.chunk_rows : p.rows;
  for (std::int32_t e = thread; e < m.groups * p.axes * p.pair_count; e += threads) {
    m.frequencies[e] = 0.0;
  }
  double scale = 0.0;
  wait_for_previous_launch();
  for (std::int64_t row = begin; row < end; row += m.slots) {
    if (slot < m.slots) {
      HeadSums<T, kPairs> sums{};
      const std::int64_t mine = row + slot;
      if (mine < end) {
        const TokenPlace place{p.positions, mine / p.tokens, mine % p.tokens};
        sums = sum_heads<T, kPairs, kHalf>(p, place, place.batch, place.token, first);
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        m.turns[slot * p.pair_count + first + i] = static_cast<double>(sums.turn[i]);
        m.stretches[slot * p.pair_count + first + i] = static_cast<double>(sums.stretch[i]);
        scale += static_cast<double>(sums.stretch[i]);
      }
    }
    for (std::int32_t k = thread; k < m.slots * p.axes; k += threads) {
      const std::int64_t at = row + k / p.axes;
      m.places[k] =
          at < end ? any_position(p.positions, k % p.axes, at / p.tokens, at % p.tokens).real : 0.0;
    }
    __syncthreads();
    if (p.wants_frequencies) add_frequencies(p, m);
    if (p.to_positions != nullptr) write_positions(p, m, row, end);
    __syncthreads();
  }
  if (p.wants_frequencies) write_frequencies(p, m);
  if (p.wants_scale) write_scale(p, scale);
}

}  // namespace rotary::internal::cuda
