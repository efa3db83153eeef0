// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Tiles of 16-bit elements in shared memory, and products of them on tensor cores: mma.sync, from
// compute capability 8.0 on.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace rotary::torch::cuda {

constexpr int kVector = 8;   // 16-bit elements of a 16-byte access
constexpr int kPadding = 8;  // rows of a tile start in different banks

/// Two floats as two 16-bit numbers, the first in the low half.
template <typename T>
__device__ std::uint32_t pack(float low, float high);
template <>
__device__ inline std::uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(both);
}
template <>
__device__ inline std::uint32_t pack<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(both);
}

/// c [16, 8] += a [16, 16] b [16, 8]. With g = lane / 4 and t = lane % 4 a thread holds of c the
/// rows g (c0, c1) and g + 8 (c2, c3), columns 2t and 2t + 1.
template <typename T>
__device__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1);
template <>
__device__ inline void multiply<__nv_bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                               std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ inline void multiply<__half>(float (&c)[4], const std::uint32_t (&a)[4],
                                        std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices from shared memory; lanes 8i to 8i + 7 give the rows of matrix i.
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&r)[4], const void* row) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

__device__ inline void copy_16_bytes(void* to, const void* from, bool inside) {
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = inside ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void end_of_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// What a tile holds of a tensor [tokens, stride]: `columns` of its columns.
template <typename T>
struct Source {
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

  /// Rows from `begin` on, by kThreads threads; what is outside of the source becomes 0.
  template <int kThreads>
  __device__ void fetch(const Source<T>& source, std::int64_t begin) {
    constexpr int kVectors = kColumns / kVector;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kVectors; i += kThreads) {
      const int row = i / kVectors;
      const int column = (i % kVectors) * kVector;
      const bool inside = begin + row < source.tokens && column < source.columns;
      copy_16_bytes(at(row, column),
                    source.from + (inside ? (begin + row) * source.stride + column : 0), inside);
    }
  }

  // Operands of multiply(). Tile as [rows, k]:
  __device__ void left(std::uint32_t (&a)[4], int row, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_matrices(a, at(row + lane % 16, k + (lane / 16) * 8));
  }
  /// Tile as [k, rows].
  __device__ void left_transposed(std::uint32_t (&a)[4], int row, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_transposed(a, at(k + lane % 8 + (lane / 16) * 8, row + ((lane / 8) % 2) * 8));
  }
  /// Tile as [columns, k]: 16 columns, two operands.
  __device__ void right_transposed(std::uint32_t (&b)[4], int k, int column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_matrices(b, at(column + lane % 8 + (lane / 16) * 8, k + ((lane / 8) % 2) * 8));
  }
  /// Tile as [k, columns].
  __device__ void right(std::uint32_t (&b)[4], int k, int column) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_transposed(b, at(k + lane % 16, column + (lane / 16) * 8));
  }
};

/// 16 rows of a D-column product, in the layout of multiply()'s c.
template <int D>
struct Rows {
  float c[D / 8][4];

  __device__ void clear() {
#pragma unroll
    for (auto& each : c) each[0] = each[1] = each[2] = each[3] = 0.0F;
  }
  template <typename T>
  __device__ void add(int j, const std::uint32_t (&a)[4], const std::uint32_t (&b)[4]) {
    multiply<T>(c[2 * j], a, b[0], b[1]);
    multiply<T>(c[2 * j + 1], a, b[2], b[3]);
  }
};

}  // namespace rotary::torch::cuda
