// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// dz = (a b) * gelu_derivative, and its partial sums over rows, the gradient of the bias.

#include "transformer/feed_forward/gemm.cuh"
#include "transformer/feed_forward/kernels.h"

namespace rotary::transformer::hopper::feed_forward {
namespace {

struct Params {
  GemmParams gemm;
  CUtensorMap derivative;  // [rows, columns], box [64, 64]
  CUtensorMap dz;
  float* partial;
  int columns;
};

/// A thread's column sums of a subtile: see AccumulatorCoord.
constexpr int kColumnSums = kSubtileColumns / 8 * 2;
constexpr int kSlots = kSubtiles;

/// Stages are ordered by pipe's mbarriers. A slot receives a subtile of the derivative by TMA, is
/// overwritten with that of dz, and stored by TMA:
///   load after store   slot_pipe.empty: arrived at once the TMA store has read the slot
///   compute after load slot_pipe.full
///   store after compute fence_proxy_async() and warpgroup_sync()
/// Sums are written by all warps before that warpgroup_sync() and read after it; they are written
/// again a tile later, after further ones.
struct SharedStorage {
  Stage stages[kStages];
  unsigned char slots[kSlots][kSubtileBytes];
  float sums[kConsumers][kColumnSubtiles][kWarpsPerWarpgroup][kSubtileColumns];
  OperandPipeline pipe;
  TmaPipeline<kSlots> slot_pipe;

  __device__ void init() {
    init_pipelines(kOperandArrivals, pipe);
    init_pipelines(1, slot_pipe);
  }
};

/// Two threads load, for all work tiles of the CTA: operands, and the derivative.
struct Producer {
  const Params& params;
  SharedStorage& shared;

  __device__ void load_derivative() const {
    PipelineState<kSlots> state;
    Scheduler::for_each(params.gemm, [&](int index) {
      const WorkTile tile(params.gemm, index);
      for (int i = 0; i < kSubtiles; ++i, state.advance()) {
        shared.slot_pipe.producer_acquire(state);
        std::uint64_t* full = shared.slot_pipe.producer_expect_tx(state, kSubtileBytes);
        tma_load_2d(shared.slots[state.stage], params.derivative, full,
                    tile.column + i / 2 * kSubtileColumns, tile.row + i % 2 * kSubtileRows);
      }
    });
  }

  __device__ void run() const {
    if (threadIdx.x == 0) load_operands<Major::kMN>(params.gemm, shared.stages, shared.pipe);
    if (threadIdx.x == 32) load_derivative();
  }
};

/// Replaces a warp's rows of the derivative by those of dz, and adds these to the sums.
__device__ void multiply_rows(const float* y, unsigned char* slot, float (&sums)[kColumnSums]) {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  const MatrixAddress address(slot + warp * kWarpRows * kTileRowBytes);
#pragma unroll
  for (int n = 0; n < kSubtileColumns / 16; ++n) {
    std::uint32_t pairs[4];
    ldmatrix(pairs, address.columns(n));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 derivative = unpack_two<__half>(pairs[i]);
      const float first = y[8 * n + 2 * i] * derivative.x;
      const float second = y[8 * n + 2 * i + 1] * derivative.y;
      pairs[i] = pack_two<__nv_bfloat16>(first, second);
      sums[4 * n + i / 2 * 2] += first;
      sums[4 * n + i / 2 * 2 + 1] += second;
    }
    stmatrix(address.columns(n), pairs);
  }
}

// ---- Column sums --------------------------------------------------------------------------------

/// Butterfly step: lanes that differ in `bit` add kCount sums and keep half of them each.
template <int kCount>
__device__ void reduce_halves(float (&sums)[kColumnSums], int bit) {
  const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const float own = upper ? sums[i + kCount / 2] : sums[i];
    const float other = upper ? sums[i] : sums[i + kCount / 2];
    sums[i] = own + __shfl_xor_sync(~0U, other, bit);
  }
}

/// The sums of a warp, from those of its lanes.
__device__ void reduce_lanes(float (&sums)[kColumnSums], float* to) {
  reduce_halves<16>(sums, 16);
  reduce_halves<8>(sums, 8);
  reduce_halves<4>(sums, 4);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int octet = lane / 16 * 4 + lane / 8 % 2 * 2 + lane / 4 % 2;
  *reinterpret_cast<float2*>(to + 8 * octet + AccumulatorCoord().column()) =
      make_float2(sums[0], sums[1]);
}

// ---- Consumer -----------------------------------------------------------------------------------

struct Consumer {
  const Params& params;
  SharedStorage& shared;
  int warpgroup;
  int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;

  /// Stores the sums of 64 columns: those of the warps, in a fixed order.
  __device__ void store_sums(const WorkTile& tile, int column_subtile) const {
    const int column = tile.column + column_subtile * kSubtileColumns + thread;
    if (thread >= kSubtileColumns || column >= params.columns) return;
    const auto& warps = shared.sums[warpgroup][column_subtile];
    float sum = warps[0][thread];
#pragma unroll
    for (int w = 1; w < kWarpsPerWarpgroup; ++w) sum += warps[w][thread];
    params.partial[std::int64_t{tile.row / kTileRows} * params.columns + column] = sum;
  }

  /// Stores a slot, and releases the one before, whose store has been read by then.
  __device__ void store_slot(int slot, const WorkTile& tile, int subtile) const {
    tma_store_2d(params.dz, shared.slots[slot], tile.column + subtile / 2 * kSubtileColumns,
                 tile.row + subtile % 2 * kSubtileRows);
    if (subtile > 0) {
      tma_store_wait_read<1>();
      mbarrier_arrive(&shared.slot_pipe.empty[(slot + kSlots - 1) % kSlots][0]);
    }
    if (subtile == kSubtiles - 1) {
      tma_store_wait_read<0>();
      mbarrier_arrive(&shared.slot_pipe.empty[slot][0]);
    }
  }

  __device__ void epilogue(const Accumulator& y, const WorkTile& tile, int count,
                           const Order& slot_order) const {
    float sums[kColumnSums];
    slot_order.wait();
#pragma unroll
    for (int i = 0; i < kSubtiles; ++i) {
      const auto state = PipelineState<kSlots>::after(count * kSubtiles + i);
      shared.slot_pipe.consumer_wait(state);
      if (i == kSubtiles - 1) slot_order.arrive();
      if (i % 2 == 0) {
#pragma unroll
        for (float& sum : sums) sum = 0.0F;
      }
      multiply_rows(y[i % 2] + i / 2 * kSubtileElements, shared.slots[state.stage], sums);
      if (i % 2 == 1) reduce_lanes(sums, shared.sums[warpgroup][i / 2][thread / 32]);
      fence_proxy_async();
      warpgroup_sync(kConsumerBarrier + warpgroup);
      if (thread == 0) store_slot(state.stage, tile, i);
      if (i % 2 == 1) store_sums(tile, i / 2);
    }
  }

  __device__ void run() const {
    const Order order(warpgroup, kMainloopBarrier);
    const Order slot_order(warpgroup, kEpilogueBarrier);
    compute_tiles<Major::kMN>(params.gemm, shared.stages, shared.pipe, order,
                              [&](const Accumulator& y, const WorkTile& tile, int count) {
                                epilogue(y, tile, count, slot_order);
                              });
    const int next = consumer_after_last(params.gemm);
    order.drain(next);
    slot_order.drain(next);
    if (thread == 0) tma_store_wait();
  }
};

__global__ void __launch_bounds__(kCtaThreads<kConsumers>, 1)
    gemm_gelu_backward(const __grid_constant__ Params params) {
  run_warp_specialized<kConsumers, kClusterSize, SharedStorage, Producer, Consumer>(params);
}

}  // namespace

int launch_backward(const BackwardParams& from, void* stream) {
  Params params{.partial = from.partial, .columns = from.gemm.columns};
  if (!make_gemm_params<Major::kMN>(params.gemm, from.gemm) ||
      !make_subtile_map(params.derivative, from.gelu_derivative, from.gemm) ||
      !make_subtile_map(params.dz, from.dz, from.gemm)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  return launch_persistent<kConsumers, kClusterSize, SharedStorage>(
      gemm_gelu_backward, params, params.gemm.num_tiles, from.gemm.num_sms, stream);
}

}  // namespace rotary::transformer::hopper::feed_forward
