// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Fragments: a thread's elements of an operand or accumulator of wgmma, their coordinates, and how
// they move between registers and tiles in shared memory (see wgmma.cuh for the swizzle).
#pragma once

#include "device/elements.cuh"
#include "transformer/kernels/hopper/warpgroup.cuh"
#include "transformer/kernels/hopper/wgmma.cuh"

namespace rotary::transformer::hopper {

using device::pack_two;
using device::unpack_two;

/// A thread's coordinates in an accumulator of 64 rows. Element i has row() + 8 * (i / 2 % 2) and
/// column() + 8 * (i / 4) + i % 2.
struct AccumulatorCoord {
  int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;

  __device__ int row() const { return thread / 32 * 16 + thread % 32 / 4; }
  __device__ int column() const { return thread % 4 * 2; }
};

// ---- ldmatrix and stmatrix ----------------------------------------------------------------------

__device__ inline void ldmatrix(std::uint32_t* x, std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(from)
               : "memory");
}
__device__ inline void stmatrix(std::uint32_t to, const std::uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/// Fragment of wgmma's operand a: columns 16 step to 16 step + 15 of a tile.
__device__ inline void load_a_fragment(std::uint32_t* a, const void* tile, int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32 * 16 + lane % 16;
  const int chunk = 2 * step + lane / 16;
  ldmatrix(a, shared_address(tile) + row * kTileRowBytes + ((chunk ^ (row % 8)) << 4));
}

/// Shared addresses for ldmatrix and stmatrix of a warp's 16 rows of a tile, 16 columns at a time.
struct MatrixAddress {
  std::uint32_t first;

  __device__ explicit MatrixAddress(const void* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    first = shared_address(rows) + lane % 16 * kTileRowBytes + ((lane / 16 ^ lane % 8) << 4);
  }
  /// Columns from 16 n on.
  __device__ std::uint32_t columns(int n) const { return first ^ n << 5; }
};

}  // namespace rotary::transformer::hopper
