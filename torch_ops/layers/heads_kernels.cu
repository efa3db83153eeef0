// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The way back of split_heads_(): turned, side by side, and summed up over rows, in one pass.

#include "layers/eights.cuh"

namespace rotary::torch::cuda {
namespace {

/// Four pairs, each by its angle's c and s.
__device__ void turn_back(const Eight& angles, Eight& x) {
#pragma unroll
  for (int i = 0; i < kDrawn; i += 2) {
    const float c = angles.at[i];
    const float s = angles.at[i + 1];
    const float a = x.at[i];
    const float b = x.at[i + 1];
    x.at[i] = c * a + s * b;
    x.at[i + 1] = c * b - s * a;
  }
}

/// A thread has the same eight columns of every part, and every (grid's blocks)-th row, from the
/// last on, since what was written last is still in the cache. The parts share what they are turned
/// by.
template <typename T, int kParts>
__global__ void __launch_bounds__(kThreads, kJoinWarps / kWarps)
    join_heads(const __grid_constant__ JoinHeads job) {
  const int column = kDrawn * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= job.width) return;
  const int pair = column % job.head_dim;
  Eight sums[kParts] = {};
  const int step = static_cast<int>(gridDim.y);
  for (int row = job.rows - 1 - static_cast<int>(blockIdx.y); row >= 0; row -= step) {
    Raw<T> raw[kParts];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      raw[p] = load_raw(static_cast<const T*>(job.from[p]) + row * job.step[p] + column);
    }
    Eight angles = zeros();
    if (job.turned > 0) {
      const std::int64_t place =
          job.places == nullptr ? static_cast<unsigned>(row) % job.tokens : job.places[row];
      angles = load_eight(job.angles + place * job.head_dim + pair);
    }
    T* to = static_cast<T*>(job.to) + std::int64_t{row} * (kParts * job.width) + column;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      Eight x = widen_all(raw[p]);
      if (p < job.turned) turn_back(angles, x);
#pragma unroll
      for (int i = 0; i < kDrawn; ++i) sums[p].at[i] += x.at[i];
      store_eight(to + p * job.width, x);
    }
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    store_eight(job.partial + (std::int64_t{blockIdx.y} * kParts + p) * job.width + column,
                sums[p]);
  }
}

}  // namespace

int launch_join_heads(const JoinHeads& job, LayerType type, void* stream) {
  const dim3 grid(static_cast<unsigned>(tile_columns(job.width)),
                  static_cast<unsigned>(join_rows(job.rows, job.width)));
  return by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto on = static_cast<cudaStream_t>(stream);
    const int threads = kWarp * join_warps(job.width);
    if (job.parts == 1) join_heads<T, 1><<<grid, threads, 0, on>>>(job);
    if (job.parts == 2) join_heads<T, 2><<<grid, threads, 0, on>>>(job);
    if (job.parts == 3) join_heads<T, 3><<<grid, threads, 0, on>>>(job);
  });
}

}  // namespace rotary::torch::cuda
