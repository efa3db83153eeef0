// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Reductions over the lanes of a warp by butterfly shuffles, in a fixed order.
#pragma once

namespace rotary::device {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

/// Sum over aligned groups of `lanes` lanes, a power of two; every lane has the result.
template <typename T>
__device__ T group_sum(T x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/// Sum over a warp; every lane has the result.
template <typename T>
__device__ T warp_sum(T x) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

}  // namespace rotary::device
