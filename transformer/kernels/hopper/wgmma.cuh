// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// wgmma: asynchronous matrix multiply-accumulate of a warpgroup, bfloat16 with float accumulators.
// Operands in shared memory are tiles of 64 columns of 16 bits (128 bytes a row) in the 128-byte
// swizzle: chunk c of 16 bytes of row r lies at chunk c ^ (r % 8). A descriptor names such an
// operand.
//
// No branch may lie between a wgmma and the wait for it: nvcc 13.0 then reuses registers of its
// accumulator too early.
#pragma once

#include "transformer/kernels/hopper/barrier.cuh"

namespace rotary::transformer::hopper {

constexpr int kTileRowBytes = 128;

// ---- Descriptors --------------------------------------------------------------------------------

/// Which dimension of B [depth, columns] is contiguous in shared memory: kK, B is stored as
/// [columns, depth]; kMN, as [depth, columns].
enum class Major { kK, kMN };

/// Of a tile, or of tiles that follow each other; `leading_bytes` from a tile to the next along
/// columns, where B is MN-major and has several.
__device__ inline std::uint64_t make_descriptor(const void* tile,
                                                int leading_bytes = 8 * kTileRowBytes) {
  constexpr std::uint64_t kSwizzle128B = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = 8 * kTileRowBytes >> 4;
  return kSwizzle128B | kEightRows << 32 | static_cast<std::uint64_t>(leading_bytes >> 4) << 16 |
         (shared_address(tile) & 0x3FFFF) >> 4;
}
/// Descriptor steps of 16 along the depth: columns of a K-major tile, rows of an MN-major one.
constexpr int kDescriptorStepK = 16 * 2 >> 4;
constexpr int kDescriptorStepMN = 16 * kTileRowBytes >> 4;

// ---- Synchronisation ----------------------------------------------------------------------------

/// Orders register accesses before the wgmma that follow.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until all but the last kPending groups are complete.
template <int kPending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving accesses of an operand in registers across this point: it does
/// not know that a wgmma accesses them until its group is waited for.
template <int kCount>
__device__ inline void fence_operand(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int kCount>
__device__ inline void fence_operand(std::uint32_t (&a)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

// ---- Multiply-accumulate: d [64, n] = a [64, 16] b [16, n] (+ d where accumulate is not 0) ------

#define ROTARY_ACC4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ROTARY_ACC16(d, i) \
  ROTARY_ACC4(d, i), ROTARY_ACC4(d, i + 4), ROTARY_ACC4(d, i + 8), ROTARY_ACC4(d, i + 12)
#define ROTARY_ACC32(d, i) ROTARY_ACC16(d, i), ROTARY_ACC16(d, i + 16)
#define ROTARY_REGS32                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
  " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ROTARY_REGS64                                                                 \
  ROTARY_REGS32                                                                       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ROTARY_REGS96                                                                 \
  ROTARY_REGS64                                                                       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
  " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

/// n = 64, a in registers.
template <Major kMajor>
__device__ inline void wgmma(float (&d)[32], const std::uint32_t* a, std::uint64_t b,
                             int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" ROTARY_REGS32
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
      : ROTARY_ACC32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),
        "n"(kMajor == Major::kMN ? 1 : 0));
}

/// n = 64, a in shared memory, as in those that follow.
template <Major kMajor>
__device__ inline void wgmma(float (&d)[32], std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" ROTARY_REGS32
      "}, %32, %33, p, 1, 1, 0, %35;\n}\n"
      : ROTARY_ACC32(d, 0)
      : "l"(a), "l"(b), "r"(accumulate), "n"(kMajor == Major::kMN ? 1 : 0));
}

/// n = 128.
template <Major kMajor>
__device__ inline void wgmma(float (&d)[64], std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ROTARY_REGS64
      "}, %64, %65, p, 1, 1, 0, %67;\n}\n"
      : ROTARY_ACC32(d, 0), ROTARY_ACC32(d, 32)
      : "l"(a), "l"(b), "r"(accumulate), "n"(kMajor == Major::kMN ? 1 : 0));
}

/// n = 192.
template <Major kMajor>
__device__ inline void wgmma(float (&d)[96], std::uint64_t a, std::uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" ROTARY_REGS96
      "}, %96, %97, p, 1, 1, 0, %99;\n}\n"
      : ROTARY_ACC32(d, 0), ROTARY_ACC32(d, 32), ROTARY_ACC32(d, 64)
      : "l"(a), "l"(b), "r"(accumulate), "n"(kMajor == Major::kMN ? 1 : 0));
}

#undef ROTARY_ACC4
#undef ROTARY_ACC16
#undef ROTARY_ACC32
#undef ROTARY_REGS32
#undef ROTARY_REGS64
#undef ROTARY_REGS96

}  // namespace rotary::transformer::hopper
