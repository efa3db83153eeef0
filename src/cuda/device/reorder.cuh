// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// In-place permutation of heads from one pairing to the other, for in-place rotations that change
// the pairing and whose frequencies do not fit one launch. One block per head. Pairs are permuted
// in shared memory, a chunk at a time; slices longer than a chunk are split into chunks, or merged
// from them, by swapping runs of elements in place.
#pragma once

#include <cstdint>

#include "cuda/device/grid_dependency.cuh"
#include "cuda/device/token_heads.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Index in the other pairing of element i of the pairing `from`.
__device__ __forceinline__ std::int32_t reordered_index(Pairing from, std::int32_t i,
                                                        std::int32_t pairs) {
  if (from == Pairing::kHalf) return i < pairs ? 2 * i : 2 * (i - pairs) + 1;
  return i / 2 + (i % 2) * pairs;
}

/// The rotary slice of a head. Methods are called by all threads of the block and end with a
/// barrier.
template <typename Storage>
class RotarySlice {
 public:
  __device__ __forceinline__ RotarySlice(char* data, std::int64_t element_stride)
      : data_(data), element_stride_(element_stride) {}

  /// Permutes the contiguous pairs first .. end - 1 through `chunk` in shared memory.
  __device__ void reorder(Pairing from, std::int32_t first, std::int32_t end, Storage* chunk) {
    const std::int32_t count = 2 * (end - first);
    for (std::int32_t i = thread(); i < count; i += threads()) {
      chunk[reordered_index(from, i, end - first)] = at(2 * first + i);
    }
    __syncthreads();
    for (std::int32_t i = thread(); i < count; i += threads()) at(2 * first + i) = chunk[i];
    __syncthreads();
  }

  /// Swaps the adjacent runs [begin, middle) and [middle, end) by three reversals: of each run,
  /// then of both together.
  __device__ void swap_runs(std::int32_t begin, std::int32_t middle, std::int32_t end) {
    reverse(begin, middle);
    reverse(middle, end);
    __syncthreads();
    reverse(begin, end);
    __syncthreads();
  }

 private:
  static __device__ __forceinline__ std::int32_t thread() {
    return static_cast<std::int32_t>(threadIdx.x);
  }
  static __device__ __forceinline__ std::int32_t threads() {
    return static_cast<std::int32_t>(blockDim.x);
  }
  __device__ __forceinline__ Storage& at(std::int32_t i) {
    return *reinterpret_cast<Storage*>(data_ + i * element_stride_);
  }
  __device__ __forceinline__ void reverse(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = thread(); i < (end - begin) / 2; i += threads()) {
      Storage& first = at(begin + i);
      Storage& last = at(end - 1 - i);
      const Storage saved = first;
      first = last;
      last = saved;
    }
  }

  char* data_;
  std::int64_t element_stride_;
};

/// Pairs per chunk: 48 KB of shared memory, which every GPU has without opting in.
template <typename Storage>
inline constexpr std::int32_t kChunkPairs = (48 << 10) / (2 * sizeof(Storage));

/// Splits runs of 2 * `length` pairs in half pairing into two runs of `length`, or merges two into
/// one (the last ones may be shorter). With F the first and S the second elements of pairs, and
/// a <= b <= c:
///   [F(a,b) F(b,c) S(a,b) S(b,c)]  <->  [F(a,b) S(a,b) F(b,c) S(b,c)]
template <typename Storage>
__device__ void regroup_runs(RotarySlice<Storage>& slice, std::int32_t pairs, std::int32_t length,
                             bool splits) {
  for (std::int32_t a = 0; a + length < pairs; a += 2 * length) {
    const std::int32_t b = a + length;
    const std::int32_t c = min(b + length, pairs);
    slice.swap_runs(a + b, splits ? a + c : 2 * b, b + c);
  }
}

/// Grid: [heads][batch][tokens], one head per block. `Storage` has the size of an element; dynamic
/// shared memory holds one chunk, or the whole slice if that is smaller.
template <typename Storage>
__global__ void __launch_bounds__(256) reorder_heads(const __grid_constant__ KernelParams p) {
  constexpr std::int32_t kChunk = kChunkPairs<Storage>;
  extern __shared__ __align__(16) unsigned char memory[];
  const TokenHeads heads(p, blockIdx.y, blockIdx.x);
  const Head<char*> head = heads.out(static_cast<std::int32_t>(blockIdx.z));
  RotarySlice<Storage> slice(head.data + p.rotary_offset * head.element_stride,
                             head.element_stride);
  if (p.overlaps) launch_dependent_grids();
  wait_on_dependent_grids();
  const bool splits = p.read == Pairing::kHalf;
  std::int32_t length = kChunk;
  if (splits) {
    while (2 * length < p.pairs) length *= 2;
    for (; length >= kChunk; length /= 2) regroup_runs(slice, p.pairs, length, true);
  }
  for (std::int32_t i = 0; i < p.pairs; i += kChunk) {
    slice.reorder(p.read, i, min(i + kChunk, p.pairs), reinterpret_cast<Storage*>(memory));
  }
  if (splits) return;
  for (; length < p.pairs; length *= 2) regroup_runs(slice, p.pairs, length, false);
}

}  // namespace rotary::internal::cuda
