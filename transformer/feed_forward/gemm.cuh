// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// GEMM mainloop, y = a b, for kernels with a fused epilogue: persistent, warp-specialised,
// ping-pong. A producer loads tiles of a and b by TMA; two consumer warpgroups each compute a tile
// of y of their own, so that one's epilogue runs beside the other's wgmma. A cluster is two CTAs
// whose tiles of y lie one below the other: each loads half of their common tile of b and
// multicasts it to both.
//
// The mainloop alone runs at the tensor cores' peak: on an H200, 9,700 cycles a tile at depth 768,
// at the clock that the power limit allows. An epilogue is hidden if it takes no longer. Beside
// wgmma other instructions run at a third of their speed, in however many warps: one multiplication
// per element is hidden, GELU with its derivative takes 14,400 cycles. So GELU is computed once,
// and an epilogue with few instructions per element matters more than one with many warps.
#pragma once

#include "transformer/feed_forward/kernels.h"
#include "transformer/kernels/hopper/fragment.cuh"
#include "transformer/kernels/hopper/kernel.cuh"
#include "transformer/kernels/hopper/pipeline.cuh"
#include "transformer/kernels/hopper/scheduler.cuh"
#include "transformer/kernels/hopper/tensor_map.h"
#include "transformer/kernels/hopper/tma.cuh"

namespace rotary::transformer::hopper::feed_forward {

constexpr int kTileRows = 128;
constexpr int kTileColumns = 192;
constexpr int kTileDepth = 64;
constexpr int kStages = 4;
constexpr int kClusterSize = 2;
constexpr int kConsumers = 2;

/// Subtiles: the epilogue handles a tile of y 64 x 64 at a time, the upper and the lower half of 64
/// columns, then of the next 64.
constexpr int kSubtileRows = 64;
constexpr int kSubtileColumns = 64;
constexpr int kSubtileBytes = kSubtileRows * kTileRowBytes;
constexpr int kSubtileElements = kSubtileRows * kSubtileColumns / kWarpgroupThreads;  // of a thread
constexpr int kColumnSubtiles = kTileColumns / kSubtileColumns;
constexpr int kSubtiles = 2 * kColumnSubtiles;
constexpr int kWarpRows = kSubtileRows / kWarpsPerWarpgroup;

/// Named barriers: those of the mainloop's order, those of an epilogue (its order, or one for each
/// consumer), and another one for each consumer.
constexpr int kMainloopBarrier = 1;
constexpr int kEpilogueBarrier = kMainloopBarrier + kConsumers;
constexpr int kConsumerBarrier = kEpilogueBarrier + kConsumers;

using Scheduler = PersistentScheduler<kClusterSize>;
using Order = WarpgroupOrder<kConsumers>;

/// Operands; boxes as the tensor maps have them.
struct GemmParams {
  CUtensorMap a;  // [rows, depth], box [128, 64]
  /// A CTA's half of a tile. K-major: [columns, depth], box [96, 64]; MN-major: [depth, columns],
  /// box [32, 64].
  CUtensorMap b;
  int num_tiles;  // work tiles: a tile of y for each CTA of a cluster
  int column_tiles;
  int depth_tiles;
};

/// A CTA's tile of y. Tiles of the same rows follow each other, since b stays in the L2 cache.
struct WorkTile {
  int row;
  int column;

  __device__ WorkTile(const GemmParams& params, int index)
      : row((index / params.column_tiles * kClusterSize + cluster_rank()) * kTileRows),
        column(index % params.column_tiles * kTileColumns) {}
};

// ---- Producer -----------------------------------------------------------------------------------

struct Stage {
  unsigned char a[kTileRows * kTileRowBytes];
  unsigned char b[kTileColumns * kTileRowBytes];
};

/// Stages are written by both CTAs of the cluster and released to both.
using OperandPipeline = TmaPipeline<kStages>;
constexpr int kOperandArrivals = kClusterSize * kWarpsPerWarpgroup;

/// This CTA's half of a tile of b, to both.
template <Major kMajor>
__device__ void load_b(Stage& stage, const CUtensorMap& map, std::uint64_t* barrier, int column,
                       int depth) {
  constexpr std::uint16_t kBoth = 3;
  if constexpr (kMajor == Major::kMN) {
    const int half = cluster_rank() * kTileDepth / kClusterSize;
#pragma unroll
    for (int c = 0; c < kColumnSubtiles; ++c) {
      tma_load_2d_multicast(stage.b + (c * kTileDepth + half) * kTileRowBytes, map, barrier,
                            column + c * kSubtileColumns, depth + half, kBoth);
    }
  } else {
    const int half = cluster_rank() * kTileColumns / kClusterSize;
    tma_load_2d_multicast(stage.b + half * kTileRowBytes, map, barrier, depth, column + half,
                          kBoth);
  }
}

/// By one thread, for all work tiles of the CTA.
template <Major kMajor>
__device__ void load_operands(const GemmParams& params, Stage (&stages)[kStages],
                              OperandPipeline& pipe) {
  PipelineState<kStages> state;
  Scheduler::for_each(params, [&](int index) {
    const WorkTile tile(params, index);
    for (int d = 0; d < params.depth_tiles; ++d, state.advance()) {
      Stage& stage = stages[state.stage];
      pipe.producer_acquire(state);
      std::uint64_t* full = pipe.producer_expect_tx(state, sizeof(Stage));
      tma_load_2d(stage.a, params.a, full, d * kTileDepth, tile.row);
      load_b<kMajor>(stage, params.b, full, tile.column, d * kTileDepth);
    }
  });
}

// ---- Consumers ----------------------------------------------------------------------------------

/// A thread's elements of a tile of y: of its upper and its lower half.
using Accumulator = float[2][kSubtileElements * kColumnSubtiles];

/// The CTA's `count`-th tile. The order of consumers is also what makes the phase bit sufficient:
/// it tells a stage's current use from the previous one, but not from the one before that.
template <Major kMajor>
__device__ void multiply_tile(Accumulator& y, Stage (&stages)[kStages], OperandPipeline& pipe,
                              int count, int depth_tiles, const Order& order) {
  constexpr int kLowerHalf = kSubtileRows * kTileRowBytes >> 4;
  constexpr int kStepB = kMajor == Major::kMN ? kDescriptorStepMN : kDescriptorStepK;
  const int first = count * depth_tiles;
  int prev_stage = 0;
  fence_operand(y[0]);
  fence_operand(y[1]);
  order.wait();
  for (int d = 0; d < depth_tiles; ++d) {
    const auto state = PipelineState<kStages>::after(first + d);
    pipe.consumer_wait(state);
    const std::uint64_t a = make_descriptor(stages[state.stage].a);
    const std::uint64_t b = kMajor == Major::kMN
                                ? make_descriptor(stages[state.stage].b, kTileDepth * kTileRowBytes)
                                : make_descriptor(stages[state.stage].b);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kTileDepth / 16; ++k) {
      wgmma<kMajor>(y[0], a + k * kDescriptorStepK, b + k * kStepB, d + k);
      wgmma<kMajor>(y[1], a + kLowerHalf + k * kDescriptorStepK, b + k * kStepB, d + k);
    }
    wgmma_commit_group();
    wgmma_wait_group<1>();
    if (d > 0) pipe.consumer_release_cluster<kClusterSize>(prev_stage);
    prev_stage = state.stage;
  }
  order.arrive();
  wgmma_wait_group<0>();
  fence_operand(y[0]);
  fence_operand(y[1]);
  pipe.consumer_release_cluster<kClusterSize>(prev_stage);
}

/// A consumer's tiles, every other one of the CTA's: calls epilogue(y, tile, count).
template <Major kMajor, typename Epilogue>
__device__ void compute_tiles(const GemmParams& params, Stage (&stages)[kStages],
                              OperandPipeline& pipe, const Order& order, const Epilogue& epilogue) {
  Accumulator y = {};
  int count = order.warpgroup;
  int index = Scheduler::first() + order.warpgroup * Scheduler::stride();
  for (; index < params.num_tiles; index += kConsumers * Scheduler::stride(), count += kConsumers) {
    multiply_tile<kMajor>(y, stages, pipe, count, params.depth_tiles, order);
    epilogue(y, WorkTile(params, index), count);
  }
}
/// The consumer whose turn follows the CTA's last tile: see WarpgroupOrder::drain().
__device__ inline int consumer_after_last(const GemmParams& params) {
  const int tiles =
      (params.num_tiles - Scheduler::first() + Scheduler::stride() - 1) / Scheduler::stride();
  return tiles % kConsumers;
}

// ---- Launch -------------------------------------------------------------------------------------

/// A contiguous matrix in boxes of [box_rows, 64]; false where the driver refuses.
inline bool make_matrix_map(CUtensorMap& map, const void* data, int rows, int columns,
                            int box_rows) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride = 2 * sizes[0];
  const cuuint32_t box[2] = {kSubtileColumns, static_cast<cuuint32_t>(box_rows)};
  return make_tensor_map(map, const_cast<void*>(data), 2, sizes, &stride, box);
}

/// A matrix [rows, columns] that the epilogue loads or stores a subtile at a time.
inline bool make_subtile_map(CUtensorMap& map, const void* data, const GemmOperands& gemm) {
  return make_matrix_map(map, data, gemm.rows, gemm.columns, kSubtileRows);
}

template <Major kMajor>
bool make_gemm_params(GemmParams& params, const GemmOperands& from) {
  const auto tiles = [](int size, int tile) { return (size + tile - 1) / tile; };
  params.column_tiles = tiles(from.columns, kTileColumns);
  params.depth_tiles = tiles(from.depth, kTileDepth);
  params.num_tiles = tiles(from.rows, kClusterSize * kTileRows) * params.column_tiles;
  return make_matrix_map(params.a, from.a, from.rows, from.depth, kTileRows) &&
         (kMajor == Major::kMN ? make_matrix_map(params.b, from.b, from.depth, from.columns,
                                                 kTileDepth / kClusterSize)
                               : make_matrix_map(params.b, from.b, from.columns, from.depth,
                                                 kTileColumns / kClusterSize));
}

}  // namespace rotary::transformer::hopper::feed_forward
