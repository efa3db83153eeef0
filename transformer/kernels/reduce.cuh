// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reductions over the lanes of a warp and the threads of a block, each in a fixed order.
#pragma once

#include "device/reduce.cuh"

namespace rotary::transformer::cuda {

using device::group_sum;
using device::kAllLanes;
using device::kWarpSize;
using device::warp_sum;

/// Over the four lanes that share a row of an mma accumulator.
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

/// Sum over a block of kThreads threads; thread 0 has the result. Once per kernel and type: nothing
/// orders a second use of its shared memory.
template <int kThreads, typename T>
__device__ T block_sum(T x) {
  __shared__ T warp_sums[kThreads / kWarpSize];
  x = warp_sum(x);
  if (threadIdx.x % kWarpSize == 0) warp_sums[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < kThreads / kWarpSize; ++i) x += warp_sums[i];
  }
  return x;
}

}  // namespace rotary::transformer::cuda
