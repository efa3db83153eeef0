// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What Hopper's products of large matrices need beside hopper/ptx.cuh: clusters, boxes of
// matrices copied both ways, and wider products.
#pragma once

#include "hopper/ptx.cuh"

namespace rotary::torch::hopper {

// Clusters: blocks that write to each other's shared memory.

__device__ inline int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// All threads of all blocks of a cluster.
__device__ inline void meet_cluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/// At the same barrier of block `rank` of the cluster.
__device__ inline void arrive_at(std::uint64_t* barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

// Copies of boxes of a matrix, each by one thread.

__device__ inline void copy_box(void* to, const CUtensorMap& map, std::uint64_t* barrier,
                                int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}

/// To the same place in every block of `blocks`, whose barriers each hear of it.
__device__ inline void copy_box_to(void* to, const CUtensorMap& map, std::uint64_t* barrier,
                                   int column, int row, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "h"(blocks)
      : "memory");
}

/// Copies from shared memory are counted one by one, by the thread that starts them.
__device__ inline void store_box(const CUtensorMap& map, const void* from, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(shared_address(from)), "r"(column), "r"(row)
      : "memory");
}
/// Until all but the last kLeft of them have read what they copy.
template <int kLeft>
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// What this thread wrote to shared memory can be copied by another, once they have met.
__device__ inline void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The threads of a warpgroup, by barrier `which` of the block's 16.
__device__ inline void meet_group(int which) {
  asm volatile("bar.sync %0, 128;" ::"r"(which) : "memory");
}

// 16 by 16 numbers of a warp, of which a thread has pairs: see Lane in hopper/warpgroups.cuh.

/// Where a thread's row of a square lies, in 16 rows of 128 bytes in the swizzle.
struct Square {
  std::uint32_t first;

  __device__ explicit Square(const void* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    first = shared_address(rows) + lane % 16 * kRowBytes + ((lane / 16 ^ lane % 8) << 4);
  }
  /// Of columns from 16 `n` on.
  __device__ std::uint32_t at(int n) const { return first ^ n << 5; }
};

__device__ inline void load_square(std::uint32_t (&x)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(from)
               : "memory");
}
__device__ inline void store_square(std::uint32_t to, const std::uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

__device__ inline std::uint32_t pack_half(float low, float high) {
  std::uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// Products.

/// Of tiles of 64 rows that lie one after the other, each with a row for each of 64 columns of
/// the operand's depth: `bytes` from a tile to the next.
__device__ inline std::uint64_t describe_by_columns(const void* tile, int bytes) {
  constexpr std::uint64_t kEightRows = 8 * kRowBytes >> 4;
  return std::uint64_t{1} << 62 | kEightRows << 32 | static_cast<std::uint64_t>(bytes >> 4) << 16 |
         (shared_address(tile) & 0x3FFFF) >> 4;
}

#define ROTARY_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ROTARY_F16(d, i) \
  ROTARY_F4(d, i), ROTARY_F4(d, i + 4), ROTARY_F4(d, i + 8), ROTARY_F4(d, i + 12)
#define ROTARY_F32(d, i) ROTARY_F16(d, i), ROTARY_F16(d, i + 16)
#define ROTARY_D64                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"            \
  " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
  " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/// d [64, 192] = a [64, 16] b [16, 192], both in shared memory, or where `add` is not 0 that much
/// more. b's tiles have a row for each of its columns or, with kByColumns, of its rows.
template <bool kByColumns>
__device__ inline void multiply_wide(float (&d)[96], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" ROTARY_D64
      ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
      "}, %96, %97, p, 1, 1, 0, %99;\n}\n"
      : ROTARY_F32(d, 0), ROTARY_F32(d, 32), ROTARY_F32(d, 64)
      : "l"(a), "l"(b), "r"(add), "n"(kByColumns ? 1 : 0));
}

#undef ROTARY_F4
#undef ROTARY_F16
#undef ROTARY_F32
#undef ROTARY_D64

}  // namespace rotary::torch::hopper
