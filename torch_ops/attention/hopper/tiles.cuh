// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the kernels share. Blocks of threads stay as long as there is work. One thread of a block
// copies tiles into shared memory; the other warpgroups compute, each on 64 rows.
#pragma once

#include <cuda_bf16.h>

#include <limits>

#include "attention/hopper/hopper.h"
#include "hopper/maps.h"
#include "hopper/warpgroups.cuh"

namespace rotary::torch::hopper {

constexpr int kTileBytes = kBlock * kRowBytes;
/// From a tile's descriptor to that of the next.
constexpr int kNextTile = kTileBytes >> 4;
constexpr int kBlockWords = 128;  // of a mask
constexpr int kMaskBytes = kBlockWords * 4;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.4426950408889634F;

struct Tile {
  unsigned char bytes[kTileBytes];
};

/// A thread's word of a block of a mask.
__device__ inline int word_of(const Lane& at) {
  const int lane = at.thread % 32;
  return at.thread / 32 * 32 + (lane / 8 * 4 + lane % 4) * 2 + lane / 4 % 2;
}

/// Bits of a word of a mask, as bits of numbers. Numbers are counted as a thread has them, 32 in a
/// block; the count must be known when compiling.
__device__ inline std::uint32_t kept_pair(std::uint32_t word, int pair) {
  return spread_signs(word << (pair / 2), pair % 2 == 0 ? 0x9988 : 0xBBAA);
}

/// Of which of those numbers `bit` is. In the order of bits compilers look at eight at once.
__device__ constexpr int number_of(int bit) { return 4 * (7 - bit % 8) + bit / 8; }

/// Two neighbours of a row.
__device__ inline void store_pair(const Heads& to, std::int64_t head, int row, int column,
                                  std::uint32_t pair) {
  auto* at = static_cast<__nv_bfloat16*>(to.data) + head + row * to.token + column;
  *reinterpret_cast<std::uint32_t*>(at) = pair;
}

/// The thread's part of a [64, 64] product, times `scale`, as rows from `first` on; of `rows`.
__device__ inline void store_tile(const float (&x)[32], const float (&scale)[2], const Heads& to,
                                  std::int64_t head, int first, int rows) {
  const Lane lane;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first + lane.row() + 8 * h;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      store_pair(to, head, row, 8 * j + lane.column(),
                 pack(x[4 * j + 2 * h] * scale[h], x[4 * j + 2 * h + 1] * scale[h]));
    }
  }
}

/// What a kernel is to do, beside its tensors.
struct Work {
  Shape shape;
  const std::uint32_t* mask;
  float factor;  // of exponents
  int query_blocks;
  int key_blocks;
  int items_per_head;
  int items;

  /// `rows`: blocks that warpgroups have, of queries or keys, one each.
  void set(const Forward& from, const std::uint32_t* kept, int rows, int groups) {
    shape = from.shape;
    mask = kept;
    factor = from.scale * kLog2E;
    query_blocks = blocks_of(shape.queries);
    key_blocks = blocks_of(shape.keys);
    items_per_head = (rows + groups - 1) / groups;
    items = shape.batch * shape.heads * items_per_head;
  }
};

/// A piece of it: one head's rows from `row` on, 64 for each warpgroup.
struct Item {
  int head;  // of all in the batch
  int row;

  __device__ Item(const Work& work, int index, int groups)
      : head(index / work.items_per_head), row(index % work.items_per_head * groups * kBlock) {}
  __device__ std::int64_t place(const Heads& x, int heads) const {
    return head / heads * x.batch + head % heads * x.head;
  }
};

/// Those of a block of threads, one after the other.
template <int kGroups, typename Do>
__device__ void for_items(const Work& work, const Do& each) {
  for (int index = static_cast<int>(blockIdx.x); index < work.items;
       index += static_cast<int>(gridDim.x)) {
    each(Item(work, index, kGroups));
  }
}

/// A map of x's tiles; false where CUDA refuses.
inline bool make_map(CUtensorMap& map, const Heads& x, const Shape& shape, int tokens) {
  constexpr cuuint64_t kBytes = 2;
  // Where there is one of something, its stride says nothing, but must be one.
  const auto bytes = [](int count, std::int64_t stride) {
    return count > 1 ? static_cast<cuuint64_t>(stride) * kBytes : cuuint64_t{kHeadDim} * kBytes;
  };
  const cuuint64_t sizes[4] = {kHeadDim, static_cast<cuuint64_t>(tokens),
                               static_cast<cuuint64_t>(shape.heads),
                               static_cast<cuuint64_t>(shape.batch)};
  const cuuint64_t strides[3] = {bytes(tokens, x.token), bytes(shape.heads, x.head),
                                 bytes(shape.batch, x.batch)};
  const cuuint32_t box[4] = {kHeadDim, kBlock, 1, 1};
  return encode_map(map, x.data, 4, sizes, strides, box);
}

template <typename Shared, typename Job>
int launch(void (*kernel)(Job), const Job& job, int threads, int processors, void* stream) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return static_cast<int>(error);
  const int grid = job.items < processors ? job.items : processors;
  kernel<<<grid, threads, sizeof(Shared), static_cast<cudaStream_t>(stream)>>>(job);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace rotary::torch::hopper
