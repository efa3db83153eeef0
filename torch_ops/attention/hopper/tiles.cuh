// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What the kernels share. Blocks of threads stay as long as there is work. One thread of a block
// copies tiles into shared memory; the other warpgroups compute, each on 64 rows. No branch lies
// between a product's start and the wait for it: nvcc 13.0 then gives registers away too early.
#pragma once

#include <cuda_bf16.h>

#include <limits>

#include "attention/hopper/hopper.h"
#include "attention/hopper/ptx.cuh"

namespace rotary::torch::hopper {

constexpr int kTileBytes = kBlock * kRowBytes;
/// From a tile's descriptor to that of the next.
constexpr int kNextTile = kTileBytes >> 4;
constexpr int kBlockWords = 128;  // of a mask
constexpr int kMaskBytes = kBlockWords * 4;
constexpr int kWarpsPerGroup = 4;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.4426950408889634F;

struct Tile {
  unsigned char bytes[kTileBytes];
};

/// Which buffer of a ring of kStages, and the parity of how often it has been come round to.
template <int kStages>
struct Place {
  int stage = 0;
  int round = 0;

  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

/// Where a thread of a warpgroup stands in a product's tile: it has rows row() and row() + 8, of
/// each eight columns column() and column() + 1, four numbers each time.
struct Lane {
  int thread = static_cast<int>(threadIdx.x) % kGroupThreads;

  __device__ int row() const { return thread / 32 * 16 + thread % 32 / 4; }
  __device__ int column() const { return thread % 4 * 2; }
  /// Its word of a block of a mask.
  __device__ int word() const {
    const int lane = thread % 32;
    return thread / 32 * 32 + (lane / 8 * 4 + lane % 4) * 2 + lane / 4 % 2;
  }
};

/// Which warpgroup of the block, as a number that compilers know to be the same in all of a warp.
__device__ inline int warpgroup() {
  return __shfl_sync(~0U, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
}

__device__ inline void release(std::uint64_t* barrier) {
  if (threadIdx.x % 32 == 0) arrive(barrier);
}

/// Bits of a word of a mask, as bits of numbers. Numbers are counted as a thread has them, 32 in a
/// block; the count must be known when compiling.
__device__ inline std::uint32_t kept_pair(std::uint32_t word, int pair) {
  return spread_signs(word << (pair / 2), pair % 2 == 0 ? 0x9988 : 0xBBAA);
}

/// Of which of those numbers `bit` is. In the order of bits compilers look at eight at once.
__device__ constexpr int number_of(int bit) { return 4 * (7 - bit % 8) + bit / 8; }

/// Warpgroups start products one after the other, so that one's run while others compute.
template <int kGroups>
struct Turns {
  int group;

  __device__ explicit Turns(int of) : group(of) {
    if (group == kGroups - 1) pass();
  }
  __device__ void take() const { meet(1 + group); }
  __device__ void pass() const { announce(1 + (group + 1) % kGroups); }
  /// After the last turn: the last to pass it meets the first.
  __device__ void end() const {
    if (group == 0) take();
  }
};

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

/// Shared memory, once its barriers are there.
template <typename Shared>
__device__ Shared& prepare() {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    shared.init();
    publish_barriers();
  }
  __syncthreads();
  return shared;
}

/// With one warpgroup that copies.
template <int kGroups>
constexpr int kThreads = (kGroups + 1) * kGroupThreads;
constexpr int kCopierRegisters = 24;
/// Of a warpgroup that computes, beside one that copies.
template <int kGroups>
constexpr int kComputerRegisters = kGroups == 3 ? 160 : 240;

/// The first warpgroup copies, the others compute.
template <int kGroups, typename Shared, typename Copier, typename Computer, typename Job>
__device__ void share_work(const Job& job) {
  auto& shared = prepare<Shared>();
  const int group = warpgroup();
  if (group == 0) {
    give_registers<kCopierRegisters>();
    if (threadIdx.x == 0) Copier{job, shared}.run();
  } else {
    take_registers<kComputerRegisters<kGroups>>();
    Computer{job, shared, group - 1}.run();
  }
}

/// A map of boxes of a tensor of at most four dimensions, the innermost first, whose elements of 16
/// bits lie side by side there; strides, in bytes, from the next one on. False where CUDA refuses.
bool encode_map(CUtensorMap& map, void* data, int dimensions, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* box);
/// A map of x's tiles; false where CUDA refuses.
bool make_map(CUtensorMap& map, const Heads& x, const Shape& shape, int tokens);

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
