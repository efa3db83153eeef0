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

/// Sums over the steps below `from` of a tree of lanes, in place.
template <int kFours>
__device__ __forceinline__ void add_lanes(float (&v)[kFours], std::int32_t lanes,
                                          std::int32_t from) {
#pragma unroll
  for (std::int32_t step = 16; step > 0; step /= 2) {
    if (step >= from || step >= lanes) continue;  // the same for all threads
#pragma unroll
    for (int i = 0; i < kFours; ++i) v[i] = __fadd_rn(v[i], __shfl_xor_sync(~0u, v[i], step));
  }
}

/// The sum of a head's squares, of whose fours `lanes` lanes of a warp have theirs: a power of two
/// from 2 to 32. All lanes of the warp call it; those of a head have the same result.
template <int kFours>
__device__ __forceinline__ float sum_of_lanes(LaneSquares<kFours>& v, std::int32_t lanes) {
  const auto own = [](const float(&fours)[kFours]) {
    return kFours == 1 ? fours[0] : __fadd_rn(fours[0], fours[kFours - 1]);
  };
  if (2 * kFours * lanes <= 32) {  // one warp: the second packs are half of the fours away
#pragma unroll
    for (int i = 0; i < kFours; ++i) v.first[i] = __fadd_rn(v.first[i], v.second[i]);
    add_lanes(v.first, lanes, 32);
    return own(v.first);
  }
  // Several warps: fours 32 apart are added after the tree of a warp.
  const std::int32_t warp_lanes = 32 / kFours;  // lanes of this head that would share a warp
  add_lanes(v.first, lanes, warp_lanes);
  add_lanes(v.second, lanes, warp_lanes);
  float sum = __fadd_rn(own(v.first), own(v.second));
  if (lanes > warp_lanes) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, warp_lanes));
  return sum;
}

template <int kCount>
__device__ __forceinline__ float sum_of_four(const float (&v)[kCount], int first) {
  float sum = __fmul_rn(v[first], v[first]);
#pragma unroll
  for (int i = 1; i < 4; ++i) sum = __fmaf_rn(v[first + i], v[first + i], sum);
  return sum;
}

}  // namespace rotary::internal::cuda
