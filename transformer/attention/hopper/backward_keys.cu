// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Attention backward, gradients of keys and values. A consumer warpgroup has 64 keys and goes over
// the queries, 64 a step. Scores are transposed, S^T = K Q^T, a row per key: so P^T and dS^T lie in
// registers as operand a of dV += P^T dY and dK += dS^T Q. The scores of a step run on the tensor
// cores together with dV and dK of the previous step.
//
// Cycles of an SM per step of one consumer, that is per block of 64 keys and 64 queries. The units
// work side by side:
//   512  tensor cores: four products of 64 x 64 x 64, 2048 multiply-adds a cycle
//   305  each of the four warp schedulers: instructions of one warp in a step; 258 without dropout
//   256  special function units: 4096 exponentials, 16 a cycle
// The critical path leads from a consumer's scores to its next wgmma: whatever does not depend on
// dP is computed before dP is complete.

#include <cstddef>

#include "transformer/attention/hopper/tiles.cuh"

namespace rotary::transformer::hopper::attention {
namespace {

constexpr int kConsumers = 2;
constexpr int kStages = 6;
constexpr int kCtasPerSm = 1;
constexpr int kClusterSize = 1;
constexpr int kDepthSteps = kHeadDim / 16;  // wgmma per product of two tiles
static_assert(kHeadDim == kBlockSize, "the depth of S and dP, and that of dV and dK (queries)");

/// AttentionParams::mask is the key-major copy of the dropout mask (DropoutMask::by_keys), null
/// without dropout: a bit per weight, 1 = kept, in the accumulator order of S^T.
/// lse and delta are [batch * heads, 64 * query_blocks]. Queries past the end contribute nothing:
/// the forward kernel writes +infinity as their lse, so that P = 0; backward_queries writes 0 as
/// their delta, since TMA fills y and dy past the end with zeros.
struct Params : AttentionParams {
  CUtensorMap dy;
  HeadsTensor dk;
  HeadsTensor dv;
  const float* lse;    // log2 of the sum over keys of exp(scale * q k)
  const float* delta;  // keep_prob * sum(dY * Y) of each query
  float dk_scale;      // scale / keep_prob
  float dv_scale;      // 1 / keep_prob
};

/// lse and delta of 64 queries.
struct QueryStats {
  float lse[kBlockSize];
  float delta[kBlockSize];
};
constexpr int kStatBytes = kBlockSize * 4;  // of lse, or of delta

/// Every buffer is written by TMA only. The full and empty mbarriers of its pipeline order accesses
/// (see pipeline.cuh):
///   buffer       pipeline    read by    a warp releases it after
///   k, v         row_pipe    ldmatrix   its ldmatrix, which all lanes execute together
///   q, dy        query_pipe  wgmma      waiting for these wgmma
///   stats, mask  query_pipe  ld.shared  issuing the wgmma whose operands the values went into
struct SharedStorage {
  Tile k[kConsumers];
  Tile v[kConsumers];
  Tile q[kStages];
  Tile dy[kStages];
  QueryStats stats[kStages];
  /// Dropout mask: a bit per weight, 1 = kept, in accumulator order, a word per thread. Without
  /// dropout it is neither written nor used.
  std::uint32_t mask[kStages][kConsumers][kMaskWords];
  /// Of the operands that stay for a whole work tile, here K and V. One stage is enough, since
  /// consumers copy them to registers at once. Each consumer has mbarriers of its own.
  TmaPipeline<1, kConsumers> row_pipe;
  TmaPipeline<kStages> query_pipe;  // of the operands of a step, which all consumers share

  __device__ void init() {
    init_pipelines(kWarpsPerWarpgroup, row_pipe);
    init_pipelines(kConsumers * kWarpsPerWarpgroup, query_pipe);
  }
};

/// From the descriptor of a stage's queries to that of their dY.
constexpr int kDescriptorStepQToDy =
    (offsetof(SharedStorage, dy) - offsetof(SharedStorage, q)) >> 4;

// ---- Producer -----------------------------------------------------------------------------------

struct Producer {
  const Params& params;
  SharedStorage& shared;
  PipelineState<1> key_state{};
  PipelineState<kStages> state{};

  __device__ void begin_tile(const WorkTile& tile, int head, int batch) {
    for (int i = 0; i < kConsumers; ++i) {
      shared.row_pipe.producer_acquire(key_state, i);
      const int key = tile.row + i * kBlockSize;
      std::uint64_t* full = shared.row_pipe.producer_expect_tx(key_state, 2 * kTileBytes, i);
      tma_load_4d(&shared.k[i], params.k, full, key, head, batch);
      tma_load_4d(&shared.v[i], params.v, full, key, head, batch);
    }
  }

  __device__ void load_step(const WorkTile& tile, int step, int head, int batch) {
    const int first_key_block = tile.row / kBlockSize;
    const int masks =
        params.mask == nullptr ? 0 : min(kConsumers, params.key_blocks - first_key_block);
    const std::int64_t first_query =
        (std::int64_t{tile.batch_head} * params.query_blocks + step) * kBlockSize;
    shared.query_pipe.producer_acquire(state);
    std::uint64_t* full = shared.query_pipe.producer_expect_tx(
        state, 2 * (kTileBytes + kStatBytes) + masks * kMaskBytes);
    tma_load_4d(&shared.q[state.stage], params.q, full, step * kBlockSize, head, batch);
    tma_load_4d(&shared.dy[state.stage], params.dy, full, step * kBlockSize, head, batch);
    tma_load_bytes(shared.stats[state.stage].lse, params.lse + first_query, kStatBytes, full);
    tma_load_bytes(shared.stats[state.stage].delta, params.delta + first_query, kStatBytes, full);
    for (int i = 0; i < masks; ++i) {
      const std::int64_t key_block =
          std::int64_t{tile.batch_head} * params.key_blocks + first_key_block + i;
      tma_load_bytes(shared.mask[state.stage][i],
                     params.mask + (key_block * params.query_blocks + step) * kMaskWords,
                     kMaskBytes, full);
    }
    state.advance();
  }

  __device__ void end_tile() { key_state.advance(); }

  __device__ void run() { produce_tiles<kConsumers>(params, params.query_blocks, *this); }
};

// ---- Keys, scores and their gradient ------------------------------------------------------------

/// A warpgroup's 64 keys: K and V as fragments of operand a, and accumulators of their gradients.
struct KeyBlock {
  std::uint32_t k[4 * kDepthSteps];
  std::uint32_t v[4 * kDepthSteps];
  float dk[32];
  float dv[32];

  __device__ void load(const Tile& k_tile, const Tile& v_tile) {
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      load_a_fragment(&k[4 * i], &k_tile, i);
      load_a_fragment(&v[4 * i], &v_tile, i);
    }
  }
};

/// 64 keys (rows) and 64 queries (columns). issue_*() issue wgmma i of kDepthSteps. S and dV must
/// be complete before softmax(): it reads s and overwrites p, the operand of dV. dP and dK must be
/// complete before softmax_backward(): it reads dp and overwrites ds, the operand of dK.
struct Scores {
  float s[32];              // S; after softmax() P, 0 where dropped
  float dp[32];             // dP before dropout
  float minus_p_delta[32];  // -P * delta: the part of dS without dP (all of it where dropped)
  std::uint32_t p[16];      // bfloat16: P, 0 where dropped, without the factor 1 / keep_prob
  std::uint32_t ds[16];     // bfloat16: dS without the factor scale / keep_prob
  float2 lse[8];            // of the thread's columns
  std::uint32_t mask_bits;  // the thread's word of the dropout mask; unused without dropout

  __device__ void issue_s(int i, const KeyBlock& keys, std::uint64_t q) {
    wgmma<Major::kK>(s, &keys.k[4 * i], q + i * kDescriptorStepK, i > 0);
  }
  __device__ void issue_dp(int i, const KeyBlock& keys, std::uint64_t dy) {
    wgmma<Major::kK>(dp, &keys.v[4 * i], dy + i * kDescriptorStepK, i > 0);
  }
  __device__ void issue_dv(int i, KeyBlock& keys, std::uint64_t dy, bool accumulate) const {
    wgmma<Major::kMN>(keys.dv, &p[4 * i], dy + i * kDescriptorStepMN, accumulate || i > 0);
  }
  __device__ void issue_dk(int i, KeyBlock& keys, std::uint64_t q, bool accumulate) const {
    wgmma<Major::kMN>(keys.dk, &ds[4 * i], q + i * kDescriptorStepMN, accumulate || i > 0);
  }

  /// Loads what softmax() needs, before the wgmma of the step are issued.
  __device__ void load(const QueryStats& stats, std::uint32_t dropout_bits) {
    load_columns(lse, stats.lse);
    mask_bits = dropout_bits;
  }

  /// P = exp2(S * scale_log2 - lse), with lse in base 2. On return s (fp32) and p (bf16) hold P
  /// with dropped weights set to 0, not yet multiplied by 1 / keep_prob.
  template <bool kDropout>
  __device__ void softmax(const QueryStats& stats, float scale_log2) {
    fence_operand(s);
    float2 delta[8];
    load_columns(delta, stats.delta);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      s[i] = cuda::exp2_approx(fmaf(s[i], scale_log2, -column_value(lse, i)));
    }
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      const int i = element_of_bit(bit);
      minus_p_delta[i] = -s[i] * column_value(delta, i);
      if (kDropout && (mask_bits & 1U << bit) == 0) s[i] = 0.0F;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = pack_two<__nv_bfloat16>(s[2 * i], s[2 * i + 1]);
    // The compiler would otherwise sink all of this below the wait for dP.
    fence_operand(s);
    fence_operand(minus_p_delta);
    fence_operand(p);
  }

  /// dS = P * (mask * dP - delta), mask being 1 where kept and 0 where dropped, without the factor
  /// scale / keep_prob, which is applied at the store.
  __device__ void softmax_backward() {
    fence_operand(dp);
#pragma unroll
    for (int i = 0; i < 32; ++i) dp[i] = fmaf(s[i], dp[i], minus_p_delta[i]);
#pragma unroll
    for (int i = 0; i < 16; ++i) ds[i] = pack_two<__nv_bfloat16>(dp[2 * i], dp[2 * i + 1]);
  }

 private:
  /// Values of the thread's 16 columns (queries).
  __device__ static void load_columns(float2 (&to)[8], const float (&from)[kBlockSize]) {
    const int column = AccumulatorCoord().column();
#pragma unroll
    for (int j = 0; j < 8; ++j) to[j] = *reinterpret_cast<const float2*>(&from[8 * j + column]);
  }
  /// The value for the column of the accumulator's element i.
  __device__ static float column_value(const float2 (&x)[8], int i) {
    return i % 2 == 0 ? x[i / 4].x : x[i / 4].y;
  }
};

// ---- Consumer -----------------------------------------------------------------------------------

template <bool kDropout>
struct Consumer {
  const Params& params;
  SharedStorage& shared;
  int warpgroup;
  WarpgroupOrder<kConsumers> order{warpgroup};
  PipelineState<1> key_state{};
  PipelineState<kStages> state{};
  std::uint64_t q_stage_0 = make_descriptor(shared.q);

  __device__ std::uint64_t q_descriptor(int stage) const {
    return q_stage_0 + stage * kDescriptorStepTile;
  }

  __device__ void wait_rows() { shared.row_pipe.consumer_wait(key_state, warpgroup); }
  __device__ void end_tile() { key_state.advance(); }

  /// For a consumer whose keys all lie past the end. It releases K, V and every stage unread and
  /// takes its turns in `order`: the producer and the other consumer wait for that.
  __device__ void skip() {
    shared.row_pipe.consumer_release(0, warpgroup);
    skip_steps(order, params.query_blocks, [this] {
      shared.query_pipe.consumer_wait(state);
      shared.query_pipe.consumer_release(state.stage);
      state.advance();
    });
  }

  /// First step: S, then dP.
  __device__ void issue_first(Scores& scores, const KeyBlock& keys) {
    const std::uint64_t q = make_descriptor(&shared.q[state.stage]);
    const std::uint64_t dy = make_descriptor(&shared.dy[state.stage]);
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) scores.issue_s(i, keys, q);
    wgmma_commit_group();
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) scores.issue_dp(i, keys, dy);
    wgmma_commit_group();
  }

  /// S of this step with dV of the previous one, then dK of the previous one with dP of this step:
  /// in the order in which results are needed. The first group must be complete before softmax(),
  /// the second before softmax_backward(): see Scores.
  __device__ void issue_next(Scores& scores, KeyBlock& keys, int prev_stage, bool accumulate) {
    const std::uint64_t q = q_descriptor(state.stage);
    const std::uint64_t dy = q + kDescriptorStepQToDy;
    const std::uint64_t prev_q = q_descriptor(prev_stage);
    const std::uint64_t prev_dy = prev_q + kDescriptorStepQToDy;
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      scores.issue_s(i, keys, q);
      scores.issue_dv(i, keys, prev_dy, accumulate);
    }
    wgmma_commit_group();
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      scores.issue_dk(i, keys, prev_q, accumulate);
      scores.issue_dp(i, keys, dy);
    }
    wgmma_commit_group();
  }

  /// dV and dK of the last step.
  __device__ void issue_last(const Scores& scores, KeyBlock& keys, bool accumulate) {
    const std::uint64_t q = make_descriptor(&shared.q[state.stage]);
    const std::uint64_t dy = make_descriptor(&shared.dy[state.stage]);
#pragma unroll
    for (int i = 0; i < kDepthSteps; ++i) {
      scores.issue_dv(i, keys, dy, accumulate);
      scores.issue_dk(i, keys, q, accumulate);
    }
    wgmma_commit_group();
  }

  __device__ void load_stats(Scores& scores, int thread_word) {
    scores.load(shared.stats[state.stage], shared.mask[state.stage][warpgroup][thread_word]);
  }

  __device__ void compute(const WorkTile& tile, int key) {
    const int thread_word = mask_word({});  // index in a block of the dropout mask
    KeyBlock keys;
    keys.load(shared.k[warpgroup], shared.v[warpgroup]);
    shared.row_pipe.consumer_release(0, warpgroup);
    Scores scores;
    shared.query_pipe.consumer_wait(state);
    load_stats(scores, thread_word);
    order.wait();
    wgmma_fence();
    issue_first(scores, keys);
    order.arrive();
    wgmma_wait_group<1>();  // S
    scores.template softmax<kDropout>(shared.stats[state.stage], params.softmax_scale_log2);
    wgmma_wait_group<0>();  // dP
    scores.softmax_backward();
    bool is_full = false;  // whether the next stage is known to be full, so that no wait is needed
    for (int step = 1; step < params.query_blocks; ++step) {
      const int prev_stage = state.stage;
      state.advance();
      if (!is_full) shared.query_pipe.consumer_wait(state);
      load_stats(scores, thread_word);
      order.wait();
      wgmma_fence();
      issue_next(scores, keys, prev_stage, step > 1);
      order.arrive();
      wgmma_wait_group<1>();  // S, and dV of the previous step
      scores.template softmax<kDropout>(shared.stats[state.stage], params.softmax_scale_log2);
      wgmma_wait_group<0>();  // dK of the previous step, and dP
      shared.query_pipe.consumer_release(prev_stage);
      PipelineState<kStages> next = state;
      next.advance();
      is_full = shared.query_pipe.consumer_test_wait(next);
      scores.softmax_backward();
    }
    order.wait();
    wgmma_fence();
    issue_last(scores, keys, params.query_blocks > 1);
    order.arrive();
    wgmma_wait_group<0>();
    fence_operand(keys.dk);
    fence_operand(keys.dv);
    shared.query_pipe.consumer_release(state.stage);
    state.advance();
    store(keys.dk, params.dk_scale, params.dk, tile, key);
    store(keys.dv, params.dv_scale, params.dv, tile, key);
  }

  /// Keys past the end, whose K and V are zeros, are left out.
  __device__ void store(const float (&x)[32], float factor, const HeadsTensor& to,
                        const WorkTile& tile, int key) const {
    const float scale[2] = {factor, factor};
    store_tile(x, scale, to, tile.offset(to, params.shape.heads), key, params.shape.keys);
  }

  __device__ void run() { consume_tiles<kConsumers>(params, params.shape.keys, *this); }
};

template <bool kDropout>
__global__ void __launch_bounds__(kCtaThreads<kConsumers>, kCtasPerSm)
    attention_backward_keys(const __grid_constant__ Params params) {
  run_warp_specialized<kConsumers, kClusterSize, SharedStorage, Producer, Consumer<kDropout>>(
      params);
}

}  // namespace

int launch_backward_keys(const BackwardParams& from, void* stream) {
  const ForwardParams& forward = from.forward;
  const Shape& shape = forward.shape;
  Params params{};
  if (!params.init<kConsumers>(forward, forward.mask.by_keys, shape.keys) ||
      !make_heads_map(params.dy, from.dy, shape, shape.queries)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  params.dk = from.dk;
  params.dv = from.dv;
  params.lse = forward.lse;
  params.delta = from.delta;
  params.dk_scale = forward.scale * forward.inv_keep_prob;
  params.dv_scale = forward.inv_keep_prob;
  const auto kernel =
      params.mask != nullptr ? attention_backward_keys<true> : attention_backward_keys<false>;
  return launch_persistent<kConsumers, kClusterSize, SharedStorage>(
      kernel, params, params.num_tiles, forward.num_sms, stream);
}

}  // namespace rotary::transformer::hopper::attention
