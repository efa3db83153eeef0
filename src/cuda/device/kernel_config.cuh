// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Compile-time configuration of the rotation kernels.
#pragma once

#include <cstdint>

namespace rotary::internal::cuda {

/// Which blocks prefetch their cache lines into L2 before any thread loads: none, the first ones of
/// a launch that overlaps the previous one, or all.
enum class Prefetch : std::uint8_t { kNone, kFirst, kAll };

/// Heads per thread and whether they are adjacent (otherwise blockDim.y apart), the arguments of
/// __launch_bounds__ (max threads, min resident blocks per SM), and the prefetch policy.
template <int kHeadsPerThread, bool kAdjacentHeads, int kThreadLimit, int kBlocksPerSm,
          Prefetch kWhich = Prefetch::kNone>
struct KernelConfig {
  static constexpr Prefetch kPrefetch = kWhich;
  static constexpr int kHeads = kHeadsPerThread;
  static constexpr int kMaxThreads = kThreadLimit;
  static constexpr int kMinBlocks = kBlocksPerSm;
  /// The j-th head of this thread. `group`: index of the block (or of the thread group inside it)
  /// among those that share the heads of a token.
  static __device__ __forceinline__ std::int32_t head(int j, std::uint32_t group) {
    if constexpr (kAdjacentHeads) return (group * blockDim.y + threadIdx.y) * kHeads + j;
    return (group * kHeads + j) * blockDim.y + threadIdx.y;
  }
};

/// Whether this block is one of the first `count` of the grid, which prefetch while the previous
/// launch drains.
__device__ __forceinline__ bool is_prefetching_block(std::uint32_t count) {
  return blockIdx.y * gridDim.x + blockIdx.x < count && blockIdx.z == 0;
}

}  // namespace rotary::internal::cuda
