// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Attention forward. A consumer warpgroup has 64 queries and goes over the keys, 128 a step. The
// scores S = Q K^T of a step run on the tensor cores together with O += P V of the previous step.

#include <cstddef>

#include "transformer/attention/hopper/softmax.cuh"
#include "transformer/attention/hopper/tiles.cuh"

namespace rotary::transformer::hopper::attention {
namespace {

constexpr int kConsumers = 3;
constexpr int kStages = 3;
constexpr int kCtasPerSm = 1;
constexpr int kClusterSize = 1;
constexpr int kStepKeys = 128;
constexpr int kStepTiles = kStepKeys / kBlockSize;

struct Params : AttentionParams {
  HeadsTensor y;
  float* lse;
  float inv_keep_prob;
  int steps;
};

/// Every buffer is written by TMA and ordered by its pipeline's full and empty mbarriers: q by
/// q_pipe, k by k_pipe, v and mask by v_pipe.
struct SharedStorage {
  Tile q[kConsumers];
  Tile k[kStages][kStepTiles];
  Tile v[kStages][kStepTiles];
  std::uint32_t mask[kStages][kConsumers][kStepTiles][kMaskWords];
  TmaPipeline<1, kConsumers> q_pipe;
  TmaPipeline<kStages> k_pipe;
  TmaPipeline<kStages> v_pipe;

  __device__ void init() {
    init_pipelines(kWarpsPerWarpgroup, q_pipe);
    init_pipelines(kConsumers * kWarpsPerWarpgroup, k_pipe, v_pipe);
  }
};

/// From the descriptor of a stage's keys to that of its values.
constexpr int kDescriptorStepKToV = (offsetof(SharedStorage, v) - offsetof(SharedStorage, k)) >> 4;

// ---- Producer -----------------------------------------------------------------------------------

struct Producer {
  const Params& params;
  SharedStorage& shared;
  PipelineState<1> q_state{};
  PipelineState<kStages> state{};

  __device__ void load_queries(const WorkTile& tile, int head, int batch) {
    for (int i = 0; i < kConsumers; ++i) {
      shared.q_pipe.producer_acquire(q_state, i);
      std::uint64_t* full = shared.q_pipe.producer_expect_tx(q_state, kTileBytes, i);
      tma_load_4d(&shared.q[i], params.q, full, tile.row + i * kBlockSize, head, batch);
    }
  }

  __device__ void load_keys(int step, int head, int batch) {
    shared.k_pipe.producer_acquire(state);
    std::uint64_t* full = shared.k_pipe.producer_expect_tx(state, kStepTiles * kTileBytes);
    for (int i = 0; i < kStepTiles; ++i) {
      tma_load_4d(&shared.k[state.stage][i], params.k, full, step * kStepKeys + i * kBlockSize,
                  head, batch);
    }
  }

  __device__ void load_values(const WorkTile& tile, int step, int head, int batch) {
    const int block = tile.row / kBlockSize;
    const int masks = params.mask == nullptr ? 0 : min(kConsumers, params.query_blocks - block);
    const int mask_bytes = min(kStepTiles, params.key_blocks - step * kStepTiles) * kMaskBytes;
    shared.v_pipe.producer_acquire(state);
    std::uint64_t* full =
        shared.v_pipe.producer_expect_tx(state, kStepTiles * kTileBytes + masks * mask_bytes);
    for (int i = 0; i < kStepTiles; ++i) {
      tma_load_4d(&shared.v[state.stage][i], params.v, full, step * kStepKeys + i * kBlockSize,
                  head, batch);
    }
    for (int i = 0; i < masks; ++i) {
      const std::int64_t row = std::int64_t{tile.batch_head} * params.query_blocks + block + i;
      tma_load_bytes(shared.mask[state.stage][i],
                     params.mask + (row * params.key_blocks + step * kStepTiles) * kMaskWords,
                     mask_bytes, full);
    }
  }

  __device__ void begin_tile(const WorkTile& /*tile*/, int /*head*/, int /*batch*/) {}
  __device__ void load_step(const WorkTile& tile, int step, int head, int batch) {
    load_keys(step, head, batch);
    if (step == 0) load_queries(tile, head, batch);
    load_values(tile, step, head, batch);
    state.advance();
  }
  __device__ void end_tile() { q_state.advance(); }

  __device__ void run() { produce_tiles<kConsumers>(params, params.steps, *this); }
};

// ---- Matrix products ----------------------------------------------------------------------------

/// S = Q K^T.
__device__ void issue_scores(float (&s)[64], std::uint64_t q, std::uint64_t k) {
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    wgmma<Major::kK>(s, q + i * kDescriptorStepK, k + i * kDescriptorStepK, i > 0);
  }
  wgmma_commit_group();
}

/// O = P V, or O += P V.
__device__ void issue_output(float (&o)[32], const std::uint32_t (&p)[32], std::uint64_t v,
                             bool accumulate) {
#pragma unroll
  for (int i = 0; i < kStepKeys / 16; ++i) {
    wgmma<Major::kMN>(o, &p[4 * i], v + i * kDescriptorStepMN, i > 0 || accumulate);
  }
  wgmma_commit_group();
}

/// Weights in bfloat16, dropped ones 0, as operand a of P V: the accumulator's layout is the
/// operand's.
template <bool kDropout>
__device__ void pack_weights(std::uint32_t (&p)[32], const float (&s)[64],
                             const std::uint32_t (&mask)[kStepTiles][kMaskWords]) {
  std::uint32_t words[kStepTiles] = {};
#pragma unroll
  for (int i = 0; kDropout && i < kStepTiles; ++i) words[i] = mask[i][mask_word({})];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    p[i] = pack_two<__nv_bfloat16>(s[2 * i], s[2 * i + 1]);
    if (kDropout) p[i] &= keep_pair(words[i / 16], i % 16);
  }
}

/// Stores y = O / (row_sum keep_prob), and lse.
__device__ void store_results(const Params& params, const float (&o)[32],
                              const OnlineSoftmax& softmax, const WorkTile& tile, int query) {
  const AccumulatorCoord at;
  float scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = softmax.total(h);
    scale[h] = params.inv_keep_prob / sum;
    const int row = query + at.row() + 8 * h;
    // Rows past the end get an infinite lse: backward then computes weights of 0 for them.
    const float lse = row < params.shape.queries
                          ? fmaf(softmax.row_max[h], params.softmax_scale_log2, log2f(sum))
                          : kInfinity;
    if (at.column() == 0) {
      params.lse[std::int64_t{tile.batch_head} * params.query_blocks * kBlockSize + row] = lse;
    }
  }
  store_tile(o, scale, params.y, tile.offset(params.y, params.shape.heads), query,
             params.shape.queries);
}

// ---- Consumer -----------------------------------------------------------------------------------

template <bool kDropout, bool kMaskTail>
struct Consumer {
  const Params& params;
  SharedStorage& shared;
  int warpgroup;
  WarpgroupOrder<kConsumers> order{warpgroup};
  PipelineState<1> q_state{};
  PipelineState<kStages> k{};
  PipelineState<kStages> v{};
  std::uint64_t q = make_descriptor(&shared.q[warpgroup]);
  std::uint64_t k_stage_0 = make_descriptor(shared.k);

  __device__ std::uint64_t k_descriptor(int stage) const {
    return k_stage_0 + stage * kStepTiles * kDescriptorStepTile;
  }
  __device__ std::uint64_t v_descriptor(int stage) const {
    return k_descriptor(stage) + kDescriptorStepKToV;
  }

  __device__ void wait_rows() { shared.q_pipe.consumer_wait(q_state, warpgroup); }
  __device__ void end_tile() { q_state.advance(); }

  __device__ void skip() {
    shared.q_pipe.consumer_release(0, warpgroup);
    skip_steps(order, params.steps, [this] {
      shared.k_pipe.consumer_wait(k);
      shared.k_pipe.consumer_release(k.stage);
      shared.v_pipe.consumer_wait(v);
      shared.v_pipe.consumer_release(v.stage);
      k.advance();
      v.advance();
    });
  }

  __device__ void compute(const WorkTile& tile, int query) {
    OnlineSoftmax softmax;
    float o[32];
    float s[64];
    std::uint32_t p[32];
    shared.k_pipe.consumer_wait(k);
    order.wait();
    wgmma_fence();
    issue_scores(s, q, k_descriptor(k.stage));
    order.arrive();
    wgmma_wait_group<0>();
    shared.k_pipe.consumer_release(k.stage);
    k.advance();
    if (params.steps == 1) shared.q_pipe.consumer_release(0, warpgroup);
    softmax.update<kMaskTail>(s, params.softmax_scale_log2, params.shape.keys);
    shared.v_pipe.consumer_wait(v);
    pack_weights<kDropout>(p, s, shared.mask[v.stage][warpgroup]);
    for (int step = 1; step < params.steps; ++step) {
      shared.k_pipe.consumer_wait(k);
      order.wait();
      wgmma_fence();
      issue_scores(s, q, k_descriptor(k.stage));
      issue_output(o, p, v_descriptor(v.stage), step > 1);
      order.arrive();
      wgmma_wait_group<1>();  // the scores
      shared.k_pipe.consumer_release(k.stage);
      k.advance();
      if (step + 1 == params.steps) shared.q_pipe.consumer_release(0, warpgroup);
      const OnlineSoftmax::Rescale rescale = softmax.update<kMaskTail>(
          s, params.softmax_scale_log2, params.shape.keys - step * kStepKeys);
      wgmma_wait_group<0>();  // the output
      fence_operand(o);
      shared.v_pipe.consumer_release(v.stage);
      v.advance();
      rescale.apply(o);
      shared.v_pipe.consumer_wait(v);
      pack_weights<kDropout>(p, s, shared.mask[v.stage][warpgroup]);
    }
    order.wait();
    wgmma_fence();
    issue_output(o, p, v_descriptor(v.stage), params.steps > 1);
    order.arrive();
    wgmma_wait_group<0>();
    fence_operand(o);
    shared.v_pipe.consumer_release(v.stage);
    v.advance();
    store_results(params, o, softmax, tile, query);
  }

  __device__ void run() { consume_tiles<kConsumers>(params, params.shape.queries, *this); }
};

template <bool kDropout, bool kMaskTail>
__global__ void __launch_bounds__(kCtaThreads<kConsumers>, kCtasPerSm)
    attention_forward(const __grid_constant__ Params params) {
  run_warp_specialized<kConsumers, kClusterSize, SharedStorage, Producer,
                       Consumer<kDropout, kMaskTail>>(params);
}

}  // namespace

int launch_forward(const ForwardParams& from, void* stream) {
  const Shape& shape = from.shape;
  Params params{};
  if (!params.init<kConsumers>(from, from.mask.by_queries, shape.queries)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  params.y = from.y;
  params.lse = from.lse;
  params.inv_keep_prob = from.inv_keep_prob;
  params.steps = (shape.keys + kStepKeys - 1) / kStepKeys;
  const bool mask_tail = shape.keys % kStepKeys != 0;
  const auto kernel =
      params.mask != nullptr
          ? (mask_tail ? attention_forward<true, true> : attention_forward<true, false>)
          : (mask_tail ? attention_forward<false, true> : attention_forward<false, false>);
  return launch_persistent<kConsumers, kClusterSize, SharedStorage>(
      kernel, params, params.num_tiles, from.num_sms, stream);
}

}  // namespace rotary::transformer::hopper::attention
