// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The mean square of a head in the order of a warp (sum_lanes 32), which is that of PyTorch's norms
// on CUDA: each thread adds the squares of four consecutive elements by fused multiply-adds; the
// fours are added as a binary tree over 32 lanes, half of them apart first; and sums of up to four
// warps as another.
#pragma once

#include <cstdint>

#include "cuda/device/phase.cuh"

namespace rotary::internal::cuda {

/// What one lane of a head holds: kFours fours of each of its two packs. Pack p of a head has the
/// fours kFours * p and on; the lane has the packs `lane` and `lane + lanes`.
template <int kFours>
struct LaneSquares {
  float first[kFours];
  float second[kFours];
};

/// The sum of a head's squares, of whose fours kLanes lanes of a warp have theirs: a power of two
/// from 2 to 32. All lanes of the warp call it; those of a head have the same result.
template <int kLanes, int kFours>
__device__ __forceinline__ float sum_of_lanes(LaneSquares<kFours>& v) {
  const auto own = [](const float(&fours)[kFours]) {
    return kFours == 1 ? fours[0] : __fadd_rn(fours[0], fours[kFours - 1]);
  };
  const auto add_lanes = [](float(&fours)[kFours], std::int32_t step) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      fours[i] = __fadd_rn(fours[i], __shfl_xor_sync(~0u, fours[i], step));
    }
  };
  constexpr std::int32_t kWarpLanes = 32 / kFours;  // lanes of a head that would share a warp
  if constexpr (2 * kLanes <= kWarpLanes) {         // the second packs are half of the fours away
#pragma unroll
    for (int i = 0; i < kFours; ++i) v.first[i] = __fadd_rn(v.first[i], v.second[i]);
#pragma unroll
    for (std::int32_t step = kLanes / 2; step > 0; step /= 2) add_lanes(v.first, step);
    return own(v.first);
  } else {  // several warps: fours 32 apart are added after the tree of a warp
#pragma unroll
    for (std::int32_t step = kWarpLanes / 2; step > 0; step /= 2) {
      add_lanes(v.first, step);
      add_lanes(v.second, step);
    }
    const float sum = __fadd_rn(own(v.first), own(v.second));
    if constexpr (kLanes <= kWarpLanes) return sum;
    return __fadd_rn(sum, __shfl_xor_sync(~0u, sum, kWarpLanes));
  }
}

template <int kCount>
__device__ __forceinline__ float sum_of_four(const float (&v)[kCount], int first) {
  float sum = __fmul_rn(v[first], v[first]);
#pragma unroll
  for (int i = 1; i < 4; ++i) sum = __fmaf_rn(v[first + i], v[first + i], sum);
  return sum;
}

}  // namespace rotary::internal::cuda
