// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Shared-memory tiles of 16-bit elements, filled by cp.async, read by ldmatrix and multiplied by
// mma.sync: compute capability 8.0 and later.
#pragma once

#include <cstdint>

#include "transformer/kernels/elements.cuh"

namespace rotary::transformer::cuda {

constexpr int kPackSize = 8;  // 16-bit elements of a 16-byte access
constexpr int kPadding = 8;   // elements after a tile row: rows start in different banks

/// mma.sync m16n8k16: c [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4 and t = lane % 4 a
/// thread holds rows g (c0, c1) and g + 8 (c2, c3) of c, columns 2t and 2t + 1.
template <typename T>
__device__ void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <>
__device__ inline void mma<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                          std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void mma<__half>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// ldmatrix x4: four 8 x 8 matrices; lanes 8i to 8i + 7 pass the row addresses of matrix i.
__device__ inline void ldmatrix(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void ldmatrix_trans(std::uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// cp.async of 16 bytes; zeros where `inside` is false (`from` must be a valid address all the
/// same).
__device__ inline void cp_async(void* to, const void* from, bool inside) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most kPending groups of this thread are in flight.
template <int kPending>
__device__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// A tensor [tokens, stride] in global memory, of which tiles hold the first `columns` columns.
template <typename T>
struct TileSource {
  const T* from;
  std::int64_t tokens;
  std::int64_t stride;
  int columns;
};

/// kRows x kColumns elements in shared memory.
template <typename T, int kRows, int kColumns>
struct Tile {
  static constexpr int kStride = kColumns + kPadding;
  T data[kRows * kStride];

  __device__ T* at(int row, int column) { return data + row * kStride + column; }

  /// cp.async of the source's rows from `begin` on by kThreads threads; zeros outside the source.
  template <int kThreads>
  __device__ void load_async(const TileSource<T>& source, std::int64_t begin) {
    constexpr int kPacks = kColumns / kPackSize;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kThreads) {
      const int row = i / kPacks;
      const int column = (i % kPacks) * kPackSize;
      const bool inside = begin + row < source.tokens && column < source.columns;
      cp_async(at(row, column), source.from + (inside ? (begin + row) * source.stride + column : 0),
               inside);
    }
  }

  // mma operands from a tile stored as [m, k] or [k, m] (A), [n, k] or [k, n] (B: 16 columns n, the
  // operands of two mma instructions).
  __device__ void load_a_mk(std::uint32_t (&a)[4], int m, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix(a, at(m + lane % 16, k + (lane / 16) * 8));
  }
  __device__ void load_a_km(std::uint32_t (&a)[4], int m, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix_trans(a, at(k + lane % 8 + (lane / 16) * 8, m + ((lane / 8) % 2) * 8));
  }
  __device__ void load_b_nk(std::uint32_t (&b)[4], int k, int n) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix(b, at(n + lane % 8 + (lane / 16) * 8, k + ((lane / 8) % 2) * 8));
  }
  __device__ void load_b_kn(std::uint32_t (&b)[4], int k, int n) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix_trans(b, at(k + lane % 16, n + (lane / 16) * 8));
  }
};

/// Accumulator of 16 x kColumns floats, in the layout of mma's c.
template <int kColumns>
struct Accumulator {
  float c[kColumns / 8][4];

  __device__ void clear() {
#pragma unroll
    for (auto& each : c) each[0] = each[1] = each[2] = each[3] = 0.0F;
  }
  /// Columns 16 j to 16 j + 15 += a b.
  template <typename T>
  __device__ void add(int j, const std::uint32_t (&a)[4], const std::uint32_t (&b)[4]) {
    mma<T>(c[2 * j], a, b[0], b[1]);
    mma<T>(c[2 * j + 1], a, b[2], b[3]);
  }
  /// Columns 16 k to 16 k + 15 as operand A of the next mma: two n8 accumulators have the layout of
  /// one k16 operand.
  template <typename T>
  __device__ void as_operand_a(std::uint32_t (&a)[4], int k) const {
    const float(&low)[4] = c[2 * k];
    const float(&high)[4] = c[2 * k + 1];
    a[0] = pack_two<T>(low[0], low[1]);
    a[1] = pack_two<T>(low[2], low[3]);
    a[2] = pack_two<T>(high[0], high[1]);
    a[3] = pack_two<T>(high[2], high[3]);
  }
};

}  // namespace rotary::transformer::cuda
