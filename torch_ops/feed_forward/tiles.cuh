// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// A product of matrices, y = a b, tile by tile, for kernels that do more to a tile of y before they
// write it. Blocks stay as long as there is work. One thread of a block copies tiles of a and b
// into a ring of stages; two warpgroups compute, each a tile of y of its own: while one's products
// run, the other finishes its tile. Two blocks make a cluster, which has the tiles of y that lie
// one under the other: each copies half of their tile of b, to both.
//
// Products alone run at the tensor cores' peak: on an H200, 9,700 cycles a tile of depth 768, at a
// clock that its power limits. Finishing a tile is hidden as long as that takes no longer, and
// beside products other instructions run at a third of their speed, in however many warps: a
// multiplication of each number is hidden, GELU with its slope takes 14,400 cycles. So GELU is
// computed once, and few instructions a number are worth more than many at once.
#pragma once

#include "hopper/clusters.cuh"
#include "hopper/maps.h"
#include "hopper/warpgroups.cuh"

namespace rotary::torch::products {

using namespace hopper;  // NOLINT(google-build-using-namespace): this, too, is of Hopper

constexpr int kTileRows = 128;
constexpr int kTileColumns = 192;
constexpr int kTileDepth = 64;
constexpr int kStages = 4;
constexpr int kCluster = 2;
constexpr int kComputers = 2;  // warpgroups that compute
constexpr int kThreads = (1 + kComputers) * kGroupThreads;

/// A tile of y is finished part by part: the upper and the lower half of 64 columns, then of the
/// next 64.
constexpr int kPartRows = 64;
constexpr int kPartColumns = 64;
constexpr int kPartBytes = kPartRows * kRowBytes;
constexpr int kPartNumbers = kPartRows * kPartColumns / kGroupThreads;  // that a thread has
constexpr int kColumnParts = kTileColumns / kPartColumns;
constexpr int kParts = 2 * kColumnParts;
constexpr int kWarpRows = kPartRows / kWarpsPerGroup;

/// What there is to multiply; boxes as the maps have them.
struct Matrices {
  CUtensorMap a;  // [rows, depth]: [128, 64]
  CUtensorMap b;  // a block's half of a tile. [columns, depth]: [96, 64]; or, by columns,
                  // [depth, columns]: [32, 64]
  int items;      // a tile of each block of a cluster
  int column_tiles;
  int depth_tiles;
};

// ---- Copies in ----------------------------------------------------------------------------------

struct Stage {
  unsigned char a[kTileRows * kRowBytes];
  unsigned char b[kTileColumns * kRowBytes];
};

struct Ring {
  Stage stages[kStages];
};

struct RingBarriers {
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ void init() {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], kCluster * kWarpsPerGroup);
    }
  }
};

/// The tiles of a cluster: those of the same rows one after the other, as b stays in the L2 cache.
struct Item {
  int row;
  int column;

  __device__ Item(const Matrices& of, int index)
      : row((index / of.column_tiles * kCluster + cluster_rank()) * kTileRows),
        column(index % of.column_tiles * kTileColumns) {}
};
__device__ inline int first_item() { return static_cast<int>(blockIdx.x) / kCluster; }
__device__ inline int next_item() { return static_cast<int>(gridDim.x) / kCluster; }

/// This block's half of a tile of b, to both.
template <bool kByColumns>
__device__ void copy_b(Stage& stage, const CUtensorMap& map, std::uint64_t* barrier, int column,
                       int depth) {
  constexpr std::uint16_t kBoth = 3;
  if constexpr (kByColumns) {
    const int half = cluster_rank() * kTileDepth / kCluster;
#pragma unroll
    for (int c = 0; c < kColumnParts; ++c) {
      copy_box_to(stage.b + (c * kTileDepth + half) * kRowBytes, map, barrier,
                  column + c * kPartColumns, depth + half, kBoth);
    }
  } else {
    const int half = cluster_rank() * kTileColumns / kCluster;
    copy_box_to(stage.b + half * kRowBytes, map, barrier, depth, column + half, kBoth);
  }
}

/// By one thread, for all tiles of the block.
template <bool kByColumns>
__device__ void copy_operands(const Matrices& of, Ring& ring, RingBarriers& barriers) {
  Place<kStages> place;
  for (int index = first_item(); index < of.items; index += next_item()) {
    const Item item(of, index);
    for (int d = 0; d < of.depth_tiles; ++d, place.next()) {
      Stage& stage = ring.stages[place.stage];
      std::uint64_t* full = &barriers.full[place.stage];
      wait(&barriers.empty[place.stage], place.round ^ 1);
      arrive_expecting(full, sizeof(Stage));
      copy_box(stage.a, of.a, full, d * kTileDepth, item.row);
      copy_b<kByColumns>(stage, of.b, full, item.column, d * kTileDepth);
    }
  }
}

// ---- Products -----------------------------------------------------------------------------------

/// A thread's numbers of a tile of y: of its upper and its lower half.
using Numbers = float[2][kPartNumbers * kColumnParts];

/// The warpgroups take turns: a barrier's parity tells its last use from this one, but not from the
/// one before. By two of a block's 16 barriers, from `barrier` on.
struct Turn {
  int group;
  int barrier;

  __device__ Turn(int group_, int barrier_) : group(group_), barrier(barrier_) {
    if (group == kComputers - 1) pass();
  }
  __device__ void take() const { meet(barrier + group); }
  __device__ void pass() const { announce(barrier + 1 - group); }
};

/// Stages are written from both blocks, and each has to know that both have read theirs.
__device__ inline void release_stage(RingBarriers& barriers, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) arrive_at(&barriers.empty[stage], lane);
}

/// Tile `number` of the block.
template <bool kByColumns>
__device__ void multiply_tile(Numbers& y, Ring& ring, RingBarriers& barriers, int number,
                              int depth_tiles, const Turn& turn) {
  constexpr int kLowerHalf = kPartRows * kRowBytes >> 4;
  constexpr int kNextB = kByColumns ? kNextRows : kNextColumns;
  const int first = number * depth_tiles;
  int last = 0;
  settle(y[0]);
  settle(y[1]);
  turn.take();
  for (int d = 0; d < depth_tiles; ++d) {
    const int stage = (first + d) % kStages;
    wait(&barriers.full[stage], (first + d) / kStages % 2);
    const std::uint64_t a = describe(ring.stages[stage].a);
    const std::uint64_t b = kByColumns
                                ? describe_by_columns(ring.stages[stage].b, kTileDepth * kRowBytes)
                                : describe(ring.stages[stage].b);
    fence_products();
#pragma unroll
    for (int k = 0; k < kTileDepth / 16; ++k) {
      multiply_wide<kByColumns>(y[0], a + k * kNextColumns, b + k * kNextB, d + k);
      multiply_wide<kByColumns>(y[1], a + kLowerHalf + k * kNextColumns, b + k * kNextB, d + k);
    }
    commit_products();
    wait_products<1>();
    if (d > 0) release_stage(barriers, last);
    last = stage;
  }
  turn.pass();
  wait_products<0>();
  settle(y[0]);
  settle(y[1]);
  release_stage(barriers, last);
}

/// The tiles of a warpgroup, every other one of the block's: calls finish(y, item, number).
template <bool kByColumns, typename Finish>
__device__ void compute_tiles(const Matrices& of, Ring& ring, RingBarriers& barriers,
                              const Turn& turn, const Finish& finish) {
  Numbers y = {};
  int number = turn.group;
  int index = first_item() + turn.group * next_item();
  for (; index < of.items; index += kComputers * next_item(), number += kComputers) {
    multiply_tile<kByColumns>(y, ring, barriers, number, of.depth_tiles, turn);
    finish(y, Item(of, index), number);
  }
}
/// Whether the warpgroup would have had the first tile that is not there: its turn came last.
__device__ inline bool has_last_turn(const Matrices& of, int group) {
  const int tiles = (of.items - first_item() + next_item() - 1) / next_item();
  return tiles % kComputers == group;
}

// ---- The kernels --------------------------------------------------------------------------------

/// As share_work(), in a cluster.
template <typename Shared, typename Copier, typename Computer, typename Job>
__device__ void share_tiles(const Job& job) {
  auto& shared = prepare<Shared>();
  meet_cluster();
  const int group = warpgroup() - 1;
  if (group < 0) {
    give_registers<kCopierRegisters>();
    Copier{job, shared}.run();
  } else {
    take_registers<kComputerRegisters<kComputers>>();
    Computer{job, shared, group}.run();
  }
  meet_cluster();  // the other block may still write here
}

// ---- Launching ----------------------------------------------------------------------------------

/// A map of boxes of `box_rows` by 64 of a matrix without gaps; false where CUDA refuses.
inline bool make_map(CUtensorMap& map, const void* data, int rows, int columns, int box_rows) {
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride = 2 * sizes[0];
  const cuuint32_t box[2] = {kPartColumns, static_cast<cuuint32_t>(box_rows)};
  return encode_map(map, const_cast<void*>(data), 2, sizes, &stride, box);
}

template <bool kByColumns>
bool make_matrices(Matrices& of, const void* a, const void* b, int rows, int columns, int depth) {
  const auto tiles = [](int all, int each) { return (all + each - 1) / each; };
  of.column_tiles = tiles(columns, kTileColumns);
  of.depth_tiles = tiles(depth, kTileDepth);
  of.items = tiles(rows, kCluster * kTileRows) * of.column_tiles;
  return make_map(of.a, a, rows, depth, kTileRows) &&
         (kByColumns ? make_map(of.b, b, depth, columns, kTileDepth / kCluster)
                     : make_map(of.b, b, columns, depth, kTileColumns / kCluster));
}

template <typename Shared, typename Job>
int launch_tiles(void (*kernel)(Job), const Job& job, int processors, void* stream) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (error != cudaSuccess) return static_cast<int>(error);
  const int most = processors / kCluster;
  cudaLaunchAttribute cluster{.id = cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = kCluster * (job.matrices.items < most ? job.matrices.items : most);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = sizeof(Shared);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return static_cast<int>(cudaLaunchKernelEx(&config, kernel, job));
}

}  // namespace rotary::torch::products
