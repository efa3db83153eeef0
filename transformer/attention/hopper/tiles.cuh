// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Work tiles of the attention kernels, the skeletons of their producers and consumers, and tiles of
// 64 rows in shared memory and registers. A work tile is 64 rows (queries, or keys in
// backward_keys) of one head for each consumer warpgroup, against all tokens of the other side, a
// step at a time.
#pragma once

#include <limits>

#include "transformer/attention/hopper/kernels.h"
#include "transformer/kernels/hopper/fragment.cuh"
#include "transformer/kernels/hopper/kernel.cuh"
#include "transformer/kernels/hopper/pipeline.cuh"
#include "transformer/kernels/hopper/scheduler.cuh"
#include "transformer/kernels/hopper/tensor_map.h"
#include "transformer/kernels/hopper/tma.cuh"
#include "transformer/kernels/math.cuh"

namespace rotary::transformer::hopper::attention {

constexpr int kTileBytes = kBlockSize * kTileRowBytes;
/// From a tile's descriptor to that of the next tile in shared memory.
constexpr int kDescriptorStepTile = kTileBytes >> 4;
constexpr int kMaskBytes = kMaskWords * 4;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.4426950408889634F;

/// [64 tokens, head_dim] of bfloat16, swizzled.
struct Tile {
  unsigned char bytes[kTileBytes];
};

// ---- Tensor maps --------------------------------------------------------------------------------

/// Boxes are tiles: [64 tokens, head_dim]. False where the driver refuses.
inline bool make_heads_map(CUtensorMap& map, const HeadsTensor& x, const Shape& shape, int tokens) {
  constexpr cuuint64_t kBytes = 2;
  // The stride of a dimension of size 1 is arbitrary, but the driver requires a valid one.
  const auto bytes = [](int size, std::int64_t stride) {
    return size > 1 ? static_cast<cuuint64_t>(stride) * kBytes : cuuint64_t{kHeadDim} * kBytes;
  };
  const cuuint64_t sizes[4] = {kHeadDim, static_cast<cuuint64_t>(tokens),
                               static_cast<cuuint64_t>(shape.heads),
                               static_cast<cuuint64_t>(shape.batch)};
  const cuuint64_t strides[3] = {bytes(tokens, x.token_stride), bytes(shape.heads, x.head_stride),
                                 bytes(shape.batch, x.batch_stride)};
  const cuuint32_t box[4] = {kHeadDim, kBlockSize, 1, 1};
  return make_tensor_map(map, x.data, 4, sizes, strides, box);
}

// ---- Work tiles ---------------------------------------------------------------------------------

/// Parameters that all three kernels share.
struct AttentionParams {
  Shape shape;
  const std::uint32_t* mask;  // of the kernel's order, or null
  float softmax_scale_log2;   // scale * log2(e)
  int query_blocks;
  int key_blocks;
  int tiles_per_head;
  int num_tiles;
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;

  /// `rows`: tokens of the side that work tiles divide. False where the driver refuses a tensor
  /// map.
  template <int kConsumers>
  bool init(const ForwardParams& from, const std::uint32_t* dropout_mask, int rows) {
    shape = from.shape;
    mask = dropout_mask;
    softmax_scale_log2 = from.scale * kLog2E;
    query_blocks = num_blocks(shape.queries);
    key_blocks = num_blocks(shape.keys);
    tiles_per_head = (num_blocks(rows) + kConsumers - 1) / kConsumers;
    num_tiles = shape.batch * shape.heads * tiles_per_head;
    return make_heads_map(q, from.q, shape, shape.queries) &&
           make_heads_map(k, from.k, shape, shape.keys) &&
           make_heads_map(v, from.v, shape, shape.keys);
  }
};

struct WorkTile {
  int batch_head;  // batch index * heads + head
  int row;         // first row of the first consumer

  __device__ WorkTile(const AttentionParams& params, int index, int consumers)
      : batch_head(index / params.tiles_per_head),
        row(index % params.tiles_per_head * consumers * kBlockSize) {}
  /// Of the head's first element in x.
  __device__ std::int64_t offset(const HeadsTensor& x, int heads) const {
    return batch_head / heads * x.batch_stride + batch_head % heads * x.head_stride;
  }
};

/// Producer: one thread calls begin_tile() and then load_step() for every step of its work tiles.
template <int kConsumers, typename Producer>
__device__ void produce_tiles(const AttentionParams& params, int steps, Producer& producer) {
  if (threadIdx.x != 0) return;
  PersistentScheduler<>::for_each(params, [&](int index) {
    const WorkTile tile(params, index, kConsumers);
    const int head = tile.batch_head % params.shape.heads;
    const int batch = tile.batch_head / params.shape.heads;
    producer.begin_tile(tile, head, batch);
    for (int step = 0; step < steps; ++step) producer.load_step(tile, step, head, batch);
    producer.end_tile();
  });
}

/// Consumer: waits for its rows of every work tile, of `rows` in all, and computes; one without
/// rows skips the tile.
template <int kConsumers, typename Consumer>
__device__ void consume_tiles(const AttentionParams& params, int rows, Consumer& consumer) {
  PersistentScheduler<>::for_each(params, [&](int index) {
    const WorkTile tile(params, index, kConsumers);
    const int row = tile.row + consumer.warpgroup * kBlockSize;
    consumer.wait_rows();
    if (row < rows) {
      consumer.compute(tile, row);
    } else {
      consumer.skip();
    }
    consumer.end_tile();
  });
  consumer.order.drain(0);
}

/// A consumer without rows still releases every stage and takes its turns: the others wait for
/// both.
template <typename Order, typename SkipStep>
__device__ void skip_steps(const Order& order, int steps, const SkipStep& skip_step) {
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    skip_step();
    order.wait();
    order.arrive();
  }
  order.wait();
  order.arrive();
}

// ---- Dropout mask bits --------------------------------------------------------------------------

/// A thread's word of a block of the dropout mask.
__device__ inline int mask_word(const AccumulatorCoord& at) {
  const int lane = at.thread % 32;
  return at.thread / 32 * 32 + (lane / 8 * 4 + lane % 4) * 2 + lane / 4 % 2;
}

/// 16 bits of ones for each kept element of a pair of 16-bit elements, pairs counted as in the
/// accumulator's fragment; `pair` must be a compile-time constant. Two bits of the word are the
/// sign bits of two of its bytes: prmt replicates them.
__device__ inline std::uint32_t keep_pair(std::uint32_t word, int pair) {
  const std::uint32_t selector = pair % 2 == 0 ? 0x9988 : 0xBBAA;
  std::uint32_t y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(word << (pair / 2)), "r"(selector));
  return y;
}

/// The accumulator's element whose bit `bit` is. In the order of bits the compiler tests eight at
/// once.
__device__ constexpr int element_of_bit(int bit) { return 4 * (7 - bit % 8) + bit / 8; }

// ---- Results ------------------------------------------------------------------------------------

/// Stores scale * x, an accumulator [64, 64], as rows first_row to first_row + 63 of a head; rows
/// from `rows` on are left out.
__device__ inline void store_tile(const float (&x)[32], const float (&scale)[2],
                                  const HeadsTensor& to, std::int64_t head_offset, int first_row,
                                  int rows) {
  const AccumulatorCoord at;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + at.row() + 8 * h;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const std::uint32_t pair =
          pack_two<__nv_bfloat16>(x[4 * j + 2 * h] * scale[h], x[4 * j + 2 * h + 1] * scale[h]);
      auto* element = static_cast<__nv_bfloat16*>(to.data) + head_offset + row * to.token_stride +
                      (8 * j + at.column());
      *reinterpret_cast<std::uint32_t*>(element) = pair;
    }
  }
}

}  // namespace rotary::transformer::hopper::attention
