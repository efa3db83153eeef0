// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// h = gelu(a b^T + bias), and gelu'(a b^T + bias) saved for backward: that multiplies by it and
// computes no GELU, and its argument is not rounded, as a saved a b^T would be.

#include <cstddef>

#include "transformer/feed_forward/gemm.cuh"
#include "transformer/feed_forward/kernels.h"
#include "transformer/kernels/math.cuh"

namespace rotary::transformer::hopper::feed_forward {
namespace {

struct Params {
  GemmParams gemm;
  CUtensorMap h;  // [rows, columns], box [64, 64]
  CUtensorMap derivative;
  const float* bias;
  int columns;
};

/// A subtile of both results.
struct Results {
  unsigned char h[kSubtileBytes];
  unsigned char derivative[kSubtileBytes];
};

/// Stages are ordered by pipe's mbarriers. A consumer has two subtiles of results: TMA stores one
/// while the next is computed. Before threads overwrite a subtile, the thread that issued its
/// stores waits until they have read it, and warpgroup_sync() tells the others; before it issues
/// them, all have written and fenced, and a second warpgroup_sync() tells it.
struct SharedStorage {
  Stage stages[kStages];
  Results results[kConsumers][2];
  OperandPipeline pipe;

  __device__ void init() { init_pipelines(kOperandArrivals, pipe); }
};

/// Biases of a thread's elements in 16 columns: see AccumulatorCoord.
struct Biases {
  float at[4];

  __device__ explicit Biases(const float* from) {
    const int column = AccumulatorCoord().column();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 two = __ldg(reinterpret_cast<const float2*>(from + 8 * i + column));
      at[2 * i] = two.x;
      at[2 * i + 1] = two.y;
    }
  }
};

/// A warp's rows of a subtile.
__device__ void compute_rows(const float* y, const float* bias, Results& to) {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32;
  const MatrixAddress address(to.h + warp * kWarpRows * kTileRowBytes);
#pragma unroll
  for (int n = 0; n < kSubtileColumns / 16; ++n) {
    const Biases b(bias + 16 * n);
    std::uint32_t values[4];
    std::uint32_t derivatives[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* two = y + 8 * n + 2 * i;
      const cuda::Gelu first = cuda::gelu_with_derivative(two[0] + b.at[i / 2 * 2]);
      const cuda::Gelu second = cuda::gelu_with_derivative(two[1] + b.at[i / 2 * 2 + 1]);
      values[i] = pack_two<__nv_bfloat16>(first.value, second.value);
      derivatives[i] = pack_two<__half>(first.derivative, second.derivative);
    }
    stmatrix(address.columns(n), values);
    stmatrix(address.columns(n) + offsetof(Results, derivative), derivatives);
  }
}

struct Consumer {
  const Params& params;
  SharedStorage& shared;
  int warpgroup;
  bool issues_stores = threadIdx.x % kWarpgroupThreads == 0;

  __device__ void epilogue(const Accumulator& y, const WorkTile& tile) const {
#pragma unroll
    for (int i = 0; i < kSubtiles; ++i) {
      const int half = i % 2;
      const int row = tile.row + half * kSubtileRows;
      const int column = tile.column + i / 2 * kSubtileColumns;
      if (column >= params.columns) break;
      Results& results = shared.results[warpgroup][half];
      if (issues_stores) tma_store_wait_read<2>();  // all but the previous subtile's two
      warpgroup_sync(kEpilogueBarrier + warpgroup);
      compute_rows(y[half] + i / 2 * kSubtileElements, params.bias + column, results);
      fence_proxy_async();
      warpgroup_sync(kEpilogueBarrier + warpgroup);
      if (!issues_stores) continue;
      tma_store_2d(params.h, results.h, column, row);
      tma_store_2d(params.derivative, results.derivative, column, row);
    }
  }

  __device__ void run() const {
    const Order order(warpgroup, kMainloopBarrier);
    compute_tiles<Major::kK>(
        params.gemm, shared.stages, shared.pipe, order,
        [this](const Accumulator& y, const WorkTile& tile, int /*count*/) { epilogue(y, tile); });
    order.drain(consumer_after_last(params.gemm));
    if (issues_stores) tma_store_wait();
  }
};

struct Producer {
  const Params& params;
  SharedStorage& shared;

  __device__ void run() const {
    if (threadIdx.x == 0) load_operands<Major::kK>(params.gemm, shared.stages, shared.pipe);
  }
};

__global__ void __launch_bounds__(kCtaThreads<kConsumers>, 1)
    gemm_bias_gelu(const __grid_constant__ Params params) {
  run_warp_specialized<kConsumers, kClusterSize, SharedStorage, Producer, Consumer>(params);
}

}  // namespace

int launch_forward(const ForwardParams& from, void* stream) {
  Params params{.bias = from.bias, .columns = from.gemm.columns};
  if (!make_gemm_params<Major::kK>(params.gemm, from.gemm) ||
      !make_subtile_map(params.h, from.h, from.gemm) ||
      !make_subtile_map(params.derivative, from.gelu_derivative, from.gemm)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  return launch_persistent<kConsumers, kClusterSize, SharedStorage>(
      gemm_bias_gelu, params, params.gemm.num_tiles, from.gemm.num_sms, stream);
}

}  // namespace rotary::transformer::hopper::feed_forward
