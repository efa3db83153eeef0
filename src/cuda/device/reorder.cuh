// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Puts the elements of heads from one pairing into the other, in place: for rotations in place with
// two pairings whose frequencies do not fit one launch. A block takes a head. As many pairs as
// shared memory holds, a chunk, change their order there; a larger slice is made of chunks.
#pragma once

#include <cstdint>

#include "cuda/device/blocks.cuh"
#include "cuda/device/operands.cuh"
#include "cuda/params.h"

namespace rotary::internal::cuda {

/// Where element i of `pairs` pairs, counted in the pairing `from`, lies in the other pairing.
__device__ __forceinline__ std::int32_t other_place(Pairing from, std::int32_t i,
                                                    std::int32_t pairs) {
  if (from == Pairing::kHalf) return i < pairs ? 2 * i : 2 * (i - pairs) + 1;
  return i / 2 + (i % 2) * pairs;
}

/// The rotary slice of a head. All calls are the whole block's and end with its memory in order.
template <typename Storage>
class Slice {
 public:
  __device__ __forceinline__ Slice(char* data, std::int64_t element)
      : data_(data), element_(element) {}

  /// Changes the order of pairs first .. end - 1, which lie together, by way of `chunk`.
  __device__ void reorder(Pairing from, std::int32_t first, std::int32_t end, Storage* chunk) {
    const std::int32_t count = 2 * (end - first);
    for (std::int32_t i = thread(); i < count; i += threads()) {
      chunk[other_place(from, i, end - first)] = at(2 * first + i);
    }
    __syncthreads();
    for (std::int32_t i = thread(); i < count; i += threads()) at(2 * first + i) = chunk[i];
    __syncthreads();
  }

  /// Exchanges the elements begin .. middle - 1 with middle .. end - 1, as wholes: each run is
  /// reversed, then both as one.
  __device__ void exchange(std::int32_t begin, std::int32_t middle, std::int32_t end) {
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
    return *reinterpret_cast<Storage*>(data_ + i * element_);
  }
  __device__ __forceinline__ void reverse(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = thread(); i < (end - begin) / 2; i += threads()) {
      Storage& first = at(begin + i);
      Storage& last = at(end - 1 - i);
      const Storage kept = first;
      first = last;
      last = kept;
    }
  }

  char* data_;
  std::int64_t element_;
};

/// Pairs of a chunk: shared memory that every GPU has.
template <typename Storage>
inline constexpr std::int32_t kChunkPairs = (48 << 10) / (2 * sizeof(Storage));

/// Cuts runs of 2 * `length` pairs in halves into two of `length`, or joins two into one (the last
/// ones may be shorter). With F the first and S the second elements of pairs, and a <= b <= c:
///   [F(a,b) F(b,c) S(a,b) S(b,c)]  <->  [F(a,b) S(a,b) F(b,c) S(b,c)]
template <typename Storage>
__device__ void change_runs(Slice<Storage>& slice, std::int32_t pairs, std::int32_t length,
                            bool cuts) {
  for (std::int32_t a = 0; a + length < pairs; a += 2 * length) {
    const std::int32_t b = a + length;
    const std::int32_t c = min(b + length, pairs);
    slice.exchange(a + b, cuts ? a + c : 2 * b, b + c);
  }
}

/// Blocks run over tokens, batch rows and heads. `Storage` has the size of an element; shared
/// memory holds a chunk, or the whole slice if that is less.
template <typename Storage>
__global__ void __launch_bounds__(256) reorder_heads(const __grid_constant__ RotateParams p) {
  constexpr std::int32_t kChunk = kChunkPairs<Storage>;
  extern __shared__ __align__(16) unsigned char memory[];
  const TokenHeads heads(p, blockIdx.y, blockIdx.x);
  const Head<char*> head = heads.out(static_cast<std::int32_t>(blockIdx.z));
  Slice<Storage> slice(head.data + p.rotary_offset * head.element, head.element);
  if (p.overlaps) let_next_launch_begin();
  wait_for_previous_launch();
  const bool cuts = p.read == Pairing::kHalf;
  std::int32_t length = kChunk;
  if (cuts) {
    while (2 * length < p.pairs) length *= 2;
    for (; length >= kChunk; length /= 2) change_runs(slice, p.pairs, length, true);
  }
  for (std::int32_t i = 0; i < p.pairs; i += kChunk) {
    slice.reorder(p.read, i, min(i + kChunk, p.pairs), reinterpret_cast<Storage*>(memory));
  }
  if (cuts) return;
  for (; length < p.pairs; length *= 2) change_runs(slice, p.pairs, length, false);
}

}  // namespace rotary::internal::cuda
