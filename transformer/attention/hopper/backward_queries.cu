// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Attention backward, gradient of the queries. A consumer warpgroup has 64 queries and goes over
// the keys, 64 a step. The scores of a step run on the tensor cores together with dQ += dS K of the
// previous step. The gradients of keys and values have a kernel of their own, backward_keys.cu:
// recomputing the scores costs less than adding dQ up across CTAs with atomics, and gradients are
// deterministic.

#include <cstddef>

#include "transformer/attention/hopper/tiles.cuh"

namespace rotary::transformer::hopper::attention {
namespace {

constexpr int kConsumers = 3;
constexpr int kStages = 4;
constexpr int kRowStages = 2;  // the next work tile's queries are loaded while this one computes
constexpr int kCtasPerSm = 1;
constexpr int kClusterSize = 1;
constexpr int kDepthSteps = kHeadDim / 16;  // wgmma per product of two tiles
static_assert(kHeadDim == kBlockSize, "the depth of S and dP, and that of dQ (keys)");

/// AttentionParams::mask is the query-major dropout mask (DropoutMask::by_queries), null without
/// dropout: a bit per weight, 1 = kept, in the accumulator order of S.
/// lse and delta are [batch * heads, 64 * query_blocks]; of queries past the end, lse is +infinity,
/// so that P = 0, and delta is written as 0, since TMA fills y and dy past the end with zeros.
struct Params : AttentionParams {
  CUtensorMap y;
  CUtensorMap dy;
  HeadsTensor dq;
  const float* lse;  // log2 of the sum over keys of exp(scale * q k)
  float* delta;      // written here, read by backward_keys: keep_prob * sum(dY * Y) of each query
  float inv_keep_prob;  // 1 / keep_prob
  float dq_scale;       // scale / keep_prob
};

/// Every buffer is written by TMA only and ordered by the mbarriers of a pipeline (see
/// pipeline.cuh), row_pipe for q, y and dy, key_pipe for k, v and mask:
///   read-after-write  all 128 threads of a consumer wait for full[stage] before their first read.
///   write-after-read  the producer waits for empty[stage], at which lane 0 of each consumer warp
///                     arrives after the warp's last read. q, k and v are read by wgmma, waited for
///                     with wgmma_wait_group<0>. y and dy are read by ldmatrix, mask by ld.shared:
///                     their values went into operands of wgmma that the whole warp issued before.
/// compute-sanitizer's racecheck reports hazards between the bulk copy into a stage of mask and the
/// reads of that stage one wrap earlier, by lanes 1 to 31 of every warp and never by lane 0 (3968 =
/// 4 warps x 31 lanes x 32 words): it takes the arrival at empty[stage] for lane 0's alone. The
/// arrival stands for the warp, which issued wgmma on all values read before it.
struct SharedStorage {
  Tile q[kRowStages][kConsumers];
  Tile y[kRowStages][kConsumers];
  Tile dy[kRowStages][kConsumers];
  Tile k[kStages];
  Tile v[kStages];
  /// Dropout mask: a bit per weight, 1 = kept, in accumulator order, a word per thread. Without
  /// dropout it is neither written nor used.
  std::uint32_t mask[kStages][kConsumers][kMaskWords];
  /// Of the operands that stay for a whole work tile, here Q, Y and dY. Each consumer has mbarriers
  /// of its own.
  TmaPipeline<kRowStages, kConsumers> row_pipe;
  TmaPipeline<kStages> key_pipe;  // of the operands of a step, which all consumers share

  __device__ void init() {
    init_pipelines(kWarpsPerWarpgroup, row_pipe);
    init_pipelines(kConsumers * kWarpsPerWarpgroup, key_pipe);
  }
};

/// From the descriptor of a stage's keys to that of its values.
constexpr int kDescriptorStepKToV = (offsetof(SharedStorage, v) - offsetof(SharedStorage, k)) >> 4;

// ---- Producer -----------------------------------------------------------------------------------

struct Producer {
  const Params& params;
  SharedStorage& shared;
  PipelineState<kRowStages> query_state{};
  PipelineState<kStages> state{};

  __device__ void begin_tile(const WorkTile& tile, int head, int batch) {
    for (int i = 0; i < kConsumers; ++i) {
      shared.row_pipe.producer_acquire(query_state, i);
      const int query = tile.row + i * kBlockSize;
      std::uint64_t* full = shared.row_pipe.producer_expect_tx(query_state, 3 * kTileBytes, i);
      tma_load_4d(&shared.q[query_state.stage][i], params.q, full, query, head, batch);
      tma_load_4d(&shared.y[query_state.stage][i], params.y, full, query, head, batch);
      tma_load_4d(&shared.dy[query_state.stage][i], params.dy, full, query, head, batch);
    }
  }

  __device__ void load_step(const WorkTile& tile, int step, int head, int batch) {
    const int first_query_block = tile.row / kBlockSize;
    const int masks =
        params.mask == nullptr ? 0 : min(kConsumers, params.query_blocks - first_query_block);
    shared.key_pipe.producer_acquire(state);
    std::uint64_t* full =
        shared.key_pipe.producer_expect_tx(state, 2 * kTileBytes + masks * kMaskBytes);
    tma_load_4d(&shared.k[state.stage], params.k, full, step * kBlockSize, head, batch);
    tma_load_4d(&shared.v[state.stage], params.v, full, step * kBlockSize, head, batch);
    for (int i = 0; i < masks; ++i) {
      const std::int64_t query_block =
          std::int64_t{tile.batch_head} * params.query_blocks + first_query_block + i;
      tma_load_bytes(shared.mask[state.stage][i],
                     params.mask + (query_block * params.key_blocks + step) * kMaskWords,
                     kMaskBytes, full);
    }
    state.advance();
  }

  __device__ void end_tile() { query_state.advance(); }

  __device__ void run() { produce_tiles<kConsumers>(params, params.key_blocks, *this); }
};

// ---- Queries ------------------------------------------------------------------------------------

/// A warpgroup's 64 queries. A thread holds lse and delta of its two rows: see AccumulatorCoord.
struct QueryBlock {
  std::uint64_t q;                    // descriptor
  std::uint32_t dy[4 * kDepthSteps];  // fragments of operand a
  float lse[2];
  float delta[2];  // keep_prob * sum(dY * Y)
};

/// Sum of the products of two pairs of bfloat16.
__device__ float dot_pair(std::uint32_t a, std::uint32_t b) {
  const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
  const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
  return fmaf(x.x, y.x, x.y * y.y);
}

/// Loads a block and computes its delta, which it also stores for backward_keys. `first_query`:
/// index of the first query in Params::lse and Params::delta.
__device__ void load_queries(QueryBlock& queries, const Params& params, const Tile& q,
                             const Tile& y, const Tile& dy, std::int64_t first_query) {
  const AccumulatorCoord at;
  queries.q = make_descriptor(&q);
  float delta[2] = {};
#pragma unroll
  for (int i = 0; i < kDepthSteps; ++i) {
    std::uint32_t y_fragment[4];
    load_a_fragment(&queries.dy[4 * i], &dy, i);
    load_a_fragment(y_fragment, &y, i);
#pragma unroll
    for (int r = 0; r < 4; ++r) delta[r % 2] += dot_pair(queries.dy[4 * i + r], y_fragment[r]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    delta[h] += __shfl_xor_sync(~0U, delta[h], 1);
    delta[h] += __shfl_xor_sync(~0U, delta[h], 2);
    queries.delta[h] = delta[h] / params.inv_keep_prob;
    const std::int64_t query = first_query + at.row() + 8 * h;
    queries.lse[h] = params.lse[query];
    if (at.column() == 0) params.delta[query] = queries.delta[h];
  }
}

// ---- Scores and their gradient ------------------------------------------------------------------

/// 64 queries (rows) and 64 keys (columns). S must be complete before softmax(), dP before
/// softmax_backward(), and so must the previous step's dQ, whose operand ds that overwrites.
struct Scores {
  float s[32];           // S; after softmax() P; after softmax_backward() P, 0 where dropped
  float dp[32];          // dP before dropout; after softmax_backward() dS, as in ds
  std::uint32_t ds[16];  // bfloat16: dS without the factor scale / keep_prob

  /// S = Q K^T.
  __device__ void issue_s(const QueryBlock& queries, std::uint64_t k) {
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      wgmma<Major::kK>(s, queries.q + i * kDescriptorStepK, k + i * kDescriptorStepK, i > 0);
    }
    wgmma_commit_group();
  }

  /// dP = dY V^T.
  __device__ void issue_dp(const QueryBlock& queries, std::uint64_t v) {
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      wgmma<Major::kK>(dp, &queries.dy[4 * i], v + i * kDescriptorStepK, i > 0);
    }
    wgmma_commit_group();
  }

  /// P = exp2(S * scale_log2 - lse), with lse in base 2: the weights before dropout. With kMaskTail
  /// those of columns from keys_left on, keys past the end, are 0.
  template <bool kMaskTail>
  __device__ void softmax(const QueryBlock& queries, float scale_log2, int keys_left) {
    fence_operand(s);
    const int column = AccumulatorCoord().column();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      s[i] = cuda::exp2_approx(fmaf(s[i], scale_log2, -queries.lse[i / 2 % 2]));
      if (kMaskTail && 8 * (i / 4) + column + i % 2 >= keys_left) s[i] = 0.0F;
    }
  }

  /// dS = P * (mask * dP - delta), mask being 1 where kept and 0 where dropped, without the factor
  /// scale / keep_prob, which is applied at the store. mask_bits: the thread's word of the dropout
  /// mask; unused without dropout.
  template <bool kDropout>
  __device__ void softmax_backward(const QueryBlock& queries, std::uint32_t mask_bits) {
    fence_operand(dp);
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      const int i = element_of_bit(bit);
      const float minus_p_delta = -s[i] * queries.delta[i / 2 % 2];
      if (kDropout && (mask_bits & 1U << bit) == 0) s[i] = 0.0F;
      dp[i] = fmaf(s[i], dp[i], minus_p_delta);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) ds[i] = pack_two<__nv_bfloat16>(dp[2 * i], dp[2 * i + 1]);
  }

  /// dQ = dS K, or dQ += dS K.
  __device__ void issue_dq(float (&dq)[32], std::uint64_t k, bool accumulate) const {
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      wgmma<Major::kMN>(dq, &ds[4 * i], k + i * kDescriptorStepMN, accumulate || i > 0);
    }
    wgmma_commit_group();
  }
};

// ---- Consumer -----------------------------------------------------------------------------------

template <bool kDropout, bool kMaskTail>
struct Consumer {
  const Params& params;
  SharedStorage& shared;
  int warpgroup;
  WarpgroupOrder<kConsumers> order{warpgroup};
  PipelineState<kStages> state{};
  PipelineState<kRowStages> query_state{};
  std::uint64_t k_stage_0 = make_descriptor(shared.k);

  __device__ std::uint64_t k_descriptor(int stage) const {
    return k_stage_0 + stage * kDescriptorStepTile;
  }
  __device__ std::uint64_t v_descriptor(int stage) const {
    return k_descriptor(stage) + kDescriptorStepKToV;
  }

  __device__ void wait_rows() { shared.row_pipe.consumer_wait(query_state, warpgroup); }
  __device__ void end_tile() {
    shared.row_pipe.consumer_release(query_state.stage, warpgroup);
    query_state.advance();
  }

  /// For a consumer whose queries all lie past the end. It releases every stage unread and takes
  /// its turns in `order`: the producer and the other consumers wait for that.
  __device__ void skip() {
    skip_steps(order, params.key_blocks, [this] {
      shared.key_pipe.consumer_wait(state);
      shared.key_pipe.consumer_release(state.stage);
      state.advance();
    });
  }

  __device__ void compute(const WorkTile& tile, int query) {
    const int thread_word = mask_word({});  // index in a block of the dropout mask
    QueryBlock queries;
    load_queries(queries, params, shared.q[query_state.stage][warpgroup],
                 shared.y[query_state.stage][warpgroup], shared.dy[query_state.stage][warpgroup],
                 std::int64_t{tile.batch_head} * params.query_blocks * kBlockSize + query);
    float dq[32];
    Scores scores;
    shared.key_pipe.consumer_wait(state);
    std::uint32_t mask_bits = shared.mask[state.stage][warpgroup][thread_word];
    order.wait();
    wgmma_fence();
    scores.issue_s(queries, k_descriptor(state.stage));
    scores.issue_dp(queries, v_descriptor(state.stage));
    order.arrive();
    wgmma_wait_group<1>();  // S
    scores.template softmax<kMaskTail>(queries, params.softmax_scale_log2, params.shape.keys);
    wgmma_wait_group<0>();  // dP
    scores.template softmax_backward<kDropout>(queries, mask_bits);
    for (int step = 1; step < params.key_blocks; ++step) {
      const int prev_stage = state.stage;
      state.advance();
      shared.key_pipe.consumer_wait(state);
      mask_bits = shared.mask[state.stage][warpgroup][thread_word];
      order.wait();
      wgmma_fence();
      scores.issue_s(queries, k_descriptor(state.stage));
      scores.issue_dq(dq, k_descriptor(prev_stage), step > 1);
      scores.issue_dp(queries, v_descriptor(state.stage));
      order.arrive();
      wgmma_wait_group<2>();  // S
      scores.template softmax<kMaskTail>(queries, params.softmax_scale_log2,
                                         params.shape.keys - step * kBlockSize);
      wgmma_wait_group<0>();  // dQ of the previous step, and dP
      shared.key_pipe.consumer_release(prev_stage);
      scores.template softmax_backward<kDropout>(queries, mask_bits);
    }
    order.wait();
    wgmma_fence();
    scores.issue_dq(dq, k_descriptor(state.stage), params.key_blocks > 1);
    order.arrive();
    wgmma_wait_group<0>();
    fence_operand(dq);
    shared.key_pipe.consumer_release(state.stage);
    state.advance();
    const float scale[2] = {params.dq_scale, params.dq_scale};
    store_tile(dq, scale, params.dq, tile.offset(params.dq, params.shape.heads), query,
               params.shape.queries);
  }

  __device__ void run() { consume_tiles<kConsumers>(params, params.shape.queries, *this); }
};

template <bool kDropout, bool kMaskTail>
__global__ void __launch_bounds__(kCtaThreads<kConsumers>, kCtasPerSm)
    attention_backward_queries(const __grid_constant__ Params params) {
  run_warp_specialized<kConsumers, kClusterSize, SharedStorage, Producer,
                       Consumer<kDropout, kMaskTail>>(params);
}

}  // namespace

int launch_backward_queries(const BackwardParams& from, void* stream) {
  const ForwardParams& forward = from.forward;
  const Shape& shape = forward.shape;
  Params params{};
  if (!params.init<kConsumers>(forward, forward.mask.by_queries, shape.queries) ||
      !make_heads_map(params.y, forward.y, shape, shape.queries) ||
      !make_heads_map(params.dy, from.dy, shape, shape.queries)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  params.dq = from.dq;
  params.lse = forward.lse;
  params.delta = from.delta;
  params.inv_keep_prob = forward.inv_keep_prob;
  params.dq_scale = forward.scale * forward.inv_keep_prob;
  const bool mask_tail = shape.keys % kBlockSize != 0;
  const auto kernel = params.mask != nullptr
                          ? (mask_tail ? attention_backward_queries<true, true>
                                       : attention_backward_queries<true, false>)
                          : (mask_tail ? attention_backward_queries<false, true>
                                       : attention_backward_queries<false, false>);
  return launch_persistent<kConsumers, kClusterSize, SharedStorage>(
      kernel, params, params.num_tiles, forward.num_sms, stream);
}

}  // namespace rotary::transformer::hopper::attention
