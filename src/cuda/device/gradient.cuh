// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Gradient sums over a chunk of rows, for any positions. A block walks its chunk in tiles of a few
// rows. Its threads sum the gradients of phase and log-magnitude over heads and write them to
// shared memory as doubles; from there they are reduced into frequencies, positions and scale. Each
// entry belongs to fixed threads, so the order of all additions is fixed: results are
// deterministic. gradient_same_position.cuh is the faster kernel where it applies.
#pragma once

#include <cstdint>

#include "cuda/device/cos_sin_general.cuh"
#include "cuda/device/gradient_heads.cuh"
#include "cuda/device/grid_dependency.cuh"
#include "cuda/gradient.h"
#include "device/reduce.cuh"

namespace rotary::internal::cuda {

/// The shared-memory tile of a block, all doubles.
struct GradientTile {
  std::int32_t rows;
  std::int32_t groups;      // threads per frequency entry; each sums every groups-th row
  double* phase_grads;      // [rows, pair_count]
  double* magnitude_grads;  // [rows, pair_count]
  double* positions;        // [rows, axes]
  double* frequencies;      // [groups, axes, pair_count]

  static __host__ __device__ std::int32_t groups_of(std::int32_t threads, std::int32_t entries) {
    return threads / entries > 1 ? threads / entries : 1;
  }
  static __host__ std::int32_t size(std::int32_t threads, std::int32_t num_rows, std::int32_t axes,
                                    std::int32_t pairs) {
    return num_rows * (2 * pairs + axes) + groups_of(threads, axes * pairs) * axes * pairs;
  }
  __device__ GradientTile(const GradientKernelParams& p, double* memory, std::int32_t num_rows)
      : rows(num_rows),
        groups(groups_of(static_cast<std::int32_t>(blockDim.x), p.axes * p.pair_count)),
        phase_grads(memory),
        magnitude_grads(phase_grads + rows * p.pair_count),
        positions(magnitude_grads + rows * p.pair_count),
        frequencies(positions + rows * p.axes) {}
};

__device__ __forceinline__ double double_at(const GradientKernelParams& p, std::int32_t plane,
                                            std::int32_t axis, std::int32_t i) {
  return __longlong_as_double(static_cast<std::int64_t>(word_at(p, plane, axis, i)));
}

/// Adds the tile to the frequency sums: `groups` threads per entry, each for its share of the rows.
__device__ inline void add_frequencies(const GradientKernelParams& p, const GradientTile& tile) {
  const std::int32_t entries = p.axes * p.pair_count;
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t end = tile.groups > 1 ? tile.groups * entries : entries;
  for (auto at = static_cast<std::int32_t>(threadIdx.x); at < end; at += threads) {
    const std::int32_t e = at % entries;
    const std::int32_t axis = e / p.pair_count;
    const std::int32_t i = e % p.pair_count;
    double sum = tile.frequencies[at];
    for (std::int32_t tile_row = at / entries; tile_row < tile.rows; tile_row += tile.groups) {
      sum +=
          tile.positions[tile_row * p.axes + axis] * tile.phase_grads[tile_row * p.pair_count + i];
    }
    tile.frequencies[at] = sum;
  }
}

/// Writes, or accumulates, the position gradient of a row.
__device__ __forceinline__ void write_position(const GradientKernelParams& p, std::int64_t row,
                                               std::int32_t axis, double sum) {
  double* const to = p.position_grads + axis * p.position_strides[0] +
                     row / p.tokens * p.position_strides[1] +
                     row % p.tokens * p.position_strides[2];
  *to = p.accumulates_others ? *to + sum : sum;
}

/// Position gradients of the tile: one warp per row and axis.
__device__ inline void write_positions(const GradientKernelParams& p, const GradientTile& tile,
                                       std::int64_t first_row, std::int64_t end) {
  const std::int32_t lane = threadIdx.x % 32;
  const std::int32_t warps = blockDim.x / 32;
  const bool sums_axes = p.position_axes != p.axes;
  for (std::int32_t k = threadIdx.x / 32; k < tile.rows * p.position_axes; k += warps) {
    const std::int32_t tile_row = k / p.position_axes;
    const std::int32_t axis = k % p.position_axes;
    if (first_row + tile_row >= end) continue;
    double sum = 0.0;
    for (std::int32_t a = axis; a < (sums_axes ? p.axes : axis + 1); ++a) {
      for (std::int32_t i = lane; i < p.pair_count; i += 32) {
        sum +=
            double_at(p, p.frequency_plane, a, i) * tile.phase_grads[tile_row * p.pair_count + i];
        if (p.phases.growth < 0) continue;
        sum +=
            double_at(p, p.phases.growth, a, i) * tile.magnitude_grads[tile_row * p.pair_count + i];
      }
    }
    sum = device::warp_sum(sum);
    if (lane == 0) write_position(p, first_row + tile_row, axis, sum);
  }
}

/// The partial sum of frequency [pair i, axis] for this block's chunk.
__device__ __forceinline__ double& partial_sum(const GradientKernelParams& p, std::int32_t axis,
                                               std::int32_t i) {
  const std::int64_t pair = p.first_pair + i;
  return p.partial_sums[(pair * p.axes + axis) * p.chunks + blockIdx.x];
}

/// Block reduction of the scale's gradient; `scale` is this thread's share.
__device__ inline void write_scale(const GradientKernelParams& p, double scale) {
  __shared__ double warp_sums[16];
  scale = device::warp_sum(scale);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = scale;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0.0;
  for (std::uint32_t w = 0; w < blockDim.x / 32; ++w) sum += warp_sums[w];
  double& to = p.partial_sums[static_cast<std::int64_t>(p.pairs) * p.axes * p.chunks + blockIdx.x];
  to = p.accumulates_others ? to + sum : sum;
}

__device__ inline void write_frequencies(const GradientKernelParams& p, const GradientTile& tile) {
  const std::int32_t entries = p.axes * p.pair_count;
  for (auto e = static_cast<std::int32_t>(threadIdx.x); e < entries;
       e += static_cast<std::int32_t>(blockDim.x)) {
    double sum = 0.0;
    for (std::int32_t g = 0; g < tile.groups; ++g) sum += tile.frequencies[g * entries + e];
    double& to = partial_sum(p, e / p.pair_count, e % p.pair_count);
    to = p.accumulates_frequencies ? to + sum : sum;
  }
}

/// One block per chunk. Threads: [tile rows][fragments of a head]; a remainder only helps to
/// reduce.
template <typename T, int kPairs, bool kHalf>
__global__ void __launch_bounds__(kPairs == kFloatPairsPerThread ? 128 : 512)
    sum_gradient_rows(const __grid_constant__ GradientKernelParams p) {
  extern __shared__ __align__(16) double shared_sums[];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t fragments = p.pair_count / kPairs;
  const GradientTile tile(p, shared_sums, threads / fragments);
  const std::int32_t tile_row = thread / fragments;
  const std::int32_t first = thread % fragments * kPairs;
  const std::int64_t begin = blockIdx.x * p.chunk_rows;
  const std::int64_t end = begin + p.chunk_rows < p.rows ? begin + p.chunk_rows : p.rows;
  for (std::int32_t e = thread; e < tile.groups * p.axes * p.pair_count; e += threads) {
    tile.frequencies[e] = 0.0;
  }
  double scale = 0.0;
  wait_on_dependent_grids();
  for (std::int64_t row = begin; row < end; row += tile.rows) {
    if (tile_row < tile.rows) {
      HeadGradients<T, kPairs> sums{};
      const std::int64_t own_row = row + tile_row;
      if (own_row < end) {
        const TokenPosition position{p.positions, own_row / p.tokens, own_row % p.tokens};
        sums = sum_heads<T, kPairs, kHalf>(p, position, position.batch, position.token, first);
      }
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        tile.phase_grads[tile_row * p.pair_count + first + i] = static_cast<double>(sums.phase[i]);
        tile.magnitude_grads[tile_row * p.pair_count + first + i] =
            static_cast<double>(sums.log_magnitude[i]);
        scale += static_cast<double>(sums.log_magnitude[i]);
      }
    }
    for (std::int32_t k = thread; k < tile.rows * p.axes; k += threads) {
      const std::int64_t at = row + k / p.axes;
      tile.positions[k] =
          at < end ? load_position(p.positions, k % p.axes, at / p.tokens, at % p.tokens).real
                   : 0.0;
    }
    __syncthreads();
    if (p.wants_frequencies) add_frequencies(p, tile);
    if (p.position_grads != nullptr) write_positions(p, tile, row, end);
    __syncthreads();
  }
  if (p.wants_frequencies) write_frequencies(p, tile);
  if (p.wants_scale) write_scale(p, scale);
}

}  // namespace rotary::internal::cuda
