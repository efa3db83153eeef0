// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Persistent tile scheduler: the grid has as many CTAs (or clusters) as run at once. CTA i computes
// tiles i, i + gridDim.x, i + 2 gridDim.x and so on.
#pragma once

namespace rotary::transformer::hopper {

template <int kClusterSize = 1>
struct PersistentScheduler {
  __device__ static int first() { return static_cast<int>(blockIdx.x) / kClusterSize; }
  __device__ static int stride() { return static_cast<int>(gridDim.x) / kClusterSize; }

  /// Calls each(index) for this CTA's share of params.num_tiles work tiles.
  template <typename Params, typename Each>
  __device__ static void for_each(const Params& params, const Each& each) {
    for (int index = first(); index < params.num_tiles; index += stride()) each(index);
  }
};

}  // namespace rotary::transformer::hopper
