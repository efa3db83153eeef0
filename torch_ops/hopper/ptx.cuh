// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What of Hopper's machine C++ has no words for: barriers in shared memory, copies of tiles, and
// products of warpgroups. A tile is 64 numbers of 16 bits wide, that is 128 bytes, and lies in
// shared memory in the 128-byte swizzle: chunk c of 16 bytes of row r at chunk c ^ (r % 8).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace rotary::torch::hopper {

constexpr int kGroupThreads = 128;  // of a warpgroup
constexpr int kRowBytes = 128;

__device__ inline std::uint32_t shared_address(const void* x) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(x));
}

// Barriers.

__device__ inline void init_barrier(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ inline void arrive_expecting(std::uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ inline void wait(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Whether wait() would return at once.
__device__ inline bool is_done(std::uint64_t* barrier, int parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

/// Barrier `which` of a block's 16, for two warpgroups: one waits, the other does not.
__device__ inline void meet(int which) {
  asm volatile("bar.sync %0, 256;" ::"r"(which) : "memory");
}
__device__ inline void announce(int which) {
  asm volatile("bar.arrive %0, 256;" ::"r"(which) : "memory");
}

// Copies, each by one thread.

/// 64 rows from `row` on of one head; rows past the end become zeros.
__device__ inline void copy_tile(void* to, const CUtensorMap& map, std::uint64_t* barrier, int row,
                                 int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

__device__ inline void copy_bytes(void* to, const void* from, int bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Products. Operands in shared memory are named by descriptors.

/// Of a tile, or of tiles that lie one after the other.
__device__ inline std::uint64_t describe(const void* tile) {
  constexpr std::uint64_t kEightRows = 8 * kRowBytes >> 4;
  return std::uint64_t{1} << 62 | kEightRows << 32 | kEightRows << 16 |
         (shared_address(tile) & 0x3FFFF) >> 4;
}
/// From 16 columns of a tile to the next 16, and from 16 rows to the next.
constexpr int kNextColumns = 16 * 2 >> 4;
constexpr int kNextRows = 16 * kRowBytes >> 4;

__device__ inline void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

#define ROTARY_F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ROTARY_F16(d, i) \
  ROTARY_F4(d, i), ROTARY_F4(d, i + 4), ROTARY_F4(d, i + 8), ROTARY_F4(d, i + 12)
#define ROTARY_F32(d) ROTARY_F16(d, 0), ROTARY_F16(d, 16)
#define ROTARY_F64(d) ROTARY_F16(d, 0), ROTARY_F16(d, 16), ROTARY_F16(d, 32), ROTARY_F16(d, 48)
#define ROTARY_D32                                                         \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
  " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define ROTARY_D64                                                                   \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"           \
  " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
  " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

/// d [64, 64] = a [64, 16] b [16, 64], or where `add` is not 0 that much more. b's tile has a row
/// for each of b's columns or, with kByColumns, for each of its rows.
template <bool kByColumns>
__device__ inline void multiply(float (&d)[32], const std::uint32_t* a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " ROTARY_D32
      ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
      : ROTARY_F32(d)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(kByColumns ? 1 : 0));
}

/// The same, a in shared memory.
template <bool kByColumns>
__device__ inline void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " ROTARY_D32
      ", %32, %33, p, 1, 1, 0, %35;\n}\n"
      : ROTARY_F32(d)
      : "l"(a), "l"(b), "r"(add), "n"(kByColumns ? 1 : 0));
}

/// The same of a b [16, 128], both in shared memory, with a row for each of b's columns.
__device__ inline void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " ROTARY_D64
      ", %64, %65, p, 1, 1, 0, 0;\n}\n"
      : ROTARY_F64(d)
      : "l"(a), "l"(b), "r"(add));
}

#undef ROTARY_F4
#undef ROTARY_F16
#undef ROTARY_F32
#undef ROTARY_F64
#undef ROTARY_D32
#undef ROTARY_D64

/// Until products are waited for, nothing may touch what they write, which compilers do not know.
template <int kCount>
__device__ inline void settle(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
__device__ inline void settle(std::uint32_t (&a)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

/// 16 rows of a warp and 16 columns from 16 `step` on, as a product's first operand wants them.
__device__ inline void load_operand(std::uint32_t* a, const void* tile, int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane % 16;
  const int chunk = 2 * step + lane / 16;
  const std::uint32_t from = shared_address(tile) + row * kRowBytes + ((chunk ^ (row % 8)) << 4);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(from)
               : "memory");
}

// Numbers.

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

/// Bytes of x as `chosen` names them, a digit each; with digit 8 + i all bits are byte i's first.
__device__ inline std::uint32_t spread_signs(std::uint32_t x, std::uint32_t chosen) {
  std::uint32_t y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(x), "r"(chosen));
  return y;
}

template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace rotary::torch::hopper
