// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What kernels share: how they are built, how launches overlap, and how the row of cos and sin lies
// in shared memory.
#pragma once

#include <cstdint>

namespace rotary::internal::cuda {

/// Waits until the launch before this one has ended and what it wrote is seen, where both overlap.
__device__ __forceinline__ void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Which blocks bring all their lines into the second-level cache before their threads load any:
/// none, the first ones of a launch that overlaps the one before, all.
enum class Prefetch : std::uint8_t { kNone, kFirst, kAll };

/// How a kernel is built: heads of a thread, whether they follow each other, most threads of a
/// block, blocks that a multiprocessor must have room for (which bounds the registers), and which
/// blocks prefetch.
template <int kHeadsOfThread, bool kFollow, int kMostThreads, int kLeastBlocks,
          Prefetch kWhich = Prefetch::kNone>
struct Build {
  static constexpr Prefetch kPrefetch = kWhich;
  static constexpr int kHeads = kHeadsOfThread;
  static constexpr int kThreads = kMostThreads;
  static constexpr int kBlocks = kLeastBlocks;
  /// The j-th head of a thread whose block (or group of threads in it) is the `group`-th.
  static __device__ __forceinline__ std::int32_t head(int j, std::uint32_t group) {
    if constexpr (kFollow) return (group * blockDim.y + threadIdx.y) * kHeads + j;
    return (group * kHeads + j) * blockDim.y + threadIdx.y;
  }
};

/// Elements of one row in shared memory; a token has two. A multiple of 16 bytes.
inline __host__ __device__ std::uint32_t padded_pairs(std::uint32_t pairs) {
  return (pairs + 3u) & ~3u;
}

/// Rows lie in shared memory as threads read them, 16 bytes a time without conflicts: the first 16
/// bytes of all units, then the next.
template <class Unit>
struct Row {
  using T = typename Unit::T;
  static constexpr int kPiece = 16 / static_cast<int>(sizeof(T));
  static constexpr int kStep = Unit::kPairs < kPiece ? Unit::kPairs : kPiece;

  static __device__ __forceinline__ std::uint32_t at(std::uint32_t i, std::uint32_t units) {
    const std::uint32_t unit = i / Unit::kPairs;
    const std::uint32_t place = i % Unit::kPairs;
    return (place / kStep * units + unit) * kStep + place % kStep;
  }
  static __device__ __forceinline__ void read(const T* row, std::uint32_t unit, std::uint32_t units,
                                              T (&to)[Unit::kPairs]) {
    struct alignas(kStep * sizeof(T)) Piece {
      T values[kStep];
    };
#pragma unroll
    for (int k = 0; k < Unit::kPairs / kStep; ++k) {
      const Piece piece = reinterpret_cast<const Piece*>(row)[k * units + unit];
#pragma unroll
      for (int i = 0; i < kStep; ++i) to[k * kStep + i] = piece.values[i];
    }
  }
};

/// Whether this block is one of the first `count`, which start while the launch before ends.
__device__ __forceinline__ bool is_among_first(std::uint32_t count) {
  return blockIdx.y * gridDim.x + blockIdx.x < count && blockIdx.z == 0;
}

}  // namespace rotary::internal::cuda
