// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradient of the queries. A warpgroup has 64 queries and goes over the keys, 64 a step: this
// step's scores are computed beside the products of the last one's gradients with keys. The keys'
// gradients have a kernel of their own: to compute scores twice costs less than to add queries'
// gradients up across blocks of threads, and the same input always gives the same gradients.

#include <cstddef>

#include "attention/hopper/tiles.cuh"

namespace rotary::torch::hopper {
namespace {

constexpr int kGroups = 3;
constexpr int kStages = 4;
constexpr int kRowBuffers = 2;
constexpr int kProducts = kHeadDim / 16;  // to a tile

struct Job : Work {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  CUtensorMap y;
  CUtensorMap grad;
  Heads dq;
  const float* lse;
  float* delta;
  float kept_scale;
  float dq_scale;
};

struct Shared {
  Tile q[kRowBuffers][kGroups];
  Tile y[kRowBuffers][kGroups];
  Tile grad[kRowBuffers][kGroups];
  Tile k[kStages];
  Tile v[kStages];
  std::uint32_t mask[kStages][kGroups][kBlockWords];
  std::uint64_t rows_full[kRowBuffers][kGroups];
  std::uint64_t rows_empty[kRowBuffers][kGroups];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ void init() {
    for (int i = 0; i < kRowBuffers * kGroups; ++i) {
      init_barrier(&rows_full[0][0] + i, 1);
      init_barrier(&rows_empty[0][0] + i, kWarpsPerGroup);
    }
    for (int i = 0; i < kStages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], kGroups * kWarpsPerGroup);
    }
  }
};

/// Between the descriptors of a stage.
constexpr int kFromKToV = (offsetof(Shared, v) - offsetof(Shared, k)) >> 4;

// ---- Copies -------------------------------------------------------------------------------------

struct Copier {
  const Job& job;
  Shared& shared;
  Place<kStages> place{};
  Place<kRowBuffers> rows{};

  __device__ void copy_rows(const Item& item, int head, int batch) {
    for (int group = 0; group < kGroups; ++group) {
      wait(&shared.rows_empty[rows.stage][group], rows.round ^ 1);
      std::uint64_t* full = &shared.rows_full[rows.stage][group];
      const int query = item.row + group * kBlock;
      arrive_expecting(full, 3 * kTileBytes);
      copy_tile(&shared.q[rows.stage][group], job.q, full, query, head, batch);
      copy_tile(&shared.y[rows.stage][group], job.y, full, query, head, batch);
      copy_tile(&shared.grad[rows.stage][group], job.grad, full, query, head, batch);
    }
  }

  __device__ void copy_keys(const Item& item, int step, int head, int batch) {
    const int block = item.row / kBlock;
    const int masks = job.mask == nullptr ? 0 : min(kGroups, job.query_blocks - block);
    wait(&shared.empty[place.stage], place.round ^ 1);
    std::uint64_t* full = &shared.full[place.stage];
    arrive_expecting(full, 2 * kTileBytes + masks * kMaskBytes);
    copy_tile(&shared.k[place.stage], job.k, full, step * kBlock, head, batch);
    copy_tile(&shared.v[place.stage], job.v, full, step * kBlock, head, batch);
    for (int group = 0; group < masks; ++group) {
      const std::int64_t row = std::int64_t{item.head} * job.query_blocks + block + group;
      copy_bytes(shared.mask[place.stage][group],
                 job.mask + (row * job.key_blocks + step) * kBlockWords, kMaskBytes, full);
    }
  }

  __device__ void run() {
    for_items<kGroups>(job, [this](const Item& item) {
      const int head = item.head % job.shape.heads;
      const int batch = item.head / job.shape.heads;
      copy_rows(item, head, batch);
      for (int step = 0; step < job.key_blocks; ++step, place.next()) {
        copy_keys(item, step, head, batch);
      }
      rows.next();
    });
  }
};

// ---- Rows ---------------------------------------------------------------------------------------

/// What a warpgroup knows about its 64 queries.
struct Rows {
  std::uint64_t q;  // where they are
  std::uint32_t grad[4 * kProducts];
  float lse[2];
  float delta[2];  // sums of grad y over the head, over what kept weights are multiplied by
};

__device__ float product_of_pairs(std::uint32_t a, std::uint32_t b) {
  const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(a));
  const float2 y = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(b));
  return fmaf(x.x, y.x, x.y * y.y);
}

/// `first`: the first query of all heads.
__device__ void load_rows(Rows& rows, const Job& job, const Tile& q, const Tile& y,
                          const Tile& grad, std::int64_t first) {
  const Lane lane;
  rows.q = describe(&q);
  float delta[2] = {};
#pragma unroll
  for (int i = 0; i < kProducts; ++i) {
    std::uint32_t part[4];
    load_operand(&rows.grad[4 * i], &grad, i);
    load_operand(part, &y, i);
#pragma unroll
    for (int r = 0; r < 4; ++r) delta[r % 2] += product_of_pairs(rows.grad[4 * i + r], part[r]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    delta[h] += __shfl_xor_sync(~0U, delta[h], 1);
    delta[h] += __shfl_xor_sync(~0U, delta[h], 2);
    rows.delta[h] = delta[h] / job.kept_scale;
    const std::int64_t row = first + lane.row() + 8 * h;
    rows.lse[h] = job.lse[row];
    if (lane.column() == 0) job.delta[row] = rows.delta[h];
  }
}

// ---- Products and weights -----------------------------------------------------------------------

/// What it knows about them and 64 keys.
struct Scores {
  float s[32];
  float dp[32];

  __device__ void start_s(const Rows& rows, std::uint64_t k) {
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      multiply<false>(s, rows.q + i * kNextColumns, k + i * kNextColumns, i > 0);
    }
    commit_products();
  }

  __device__ void start_dp(const Rows& rows, std::uint64_t v) {
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      multiply<false>(dp, &rows.grad[4 * i], v + i * kNextColumns, i > 0);
    }
    commit_products();
  }

  /// s becomes weights.
  template <bool kShort>
  __device__ void weigh(const Rows& rows, float factor, int keys_left) {
    settle(s);
    const int column = Lane().column();
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      s[i] = exp2_of(fmaf(s[i], factor, -rows.lse[i / 2 % 2]));
      if (kShort && 8 * (i / 4) + column + i % 2 >= keys_left) s[i] = 0.0F;
    }
  }

  /// The scores' gradient, up to its scale.
  template <bool kDropout>
  __device__ void finish(std::uint32_t (&ds)[16], const Rows& rows, std::uint32_t kept) {
    settle(dp);
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      const int i = number_of(bit);
      const float dropped = -s[i] * rows.delta[i / 2 % 2];
      if (kDropout && (kept & 1U << bit) == 0) s[i] = 0.0F;
      dp[i] = fmaf(s[i], dp[i], dropped);
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) ds[i] = pack(dp[2 * i], dp[2 * i + 1]);
  }
};

__device__ void start_dq(float (&dq)[32], const std::uint32_t (&ds)[16], std::uint64_t k,
                         bool add) {
#pragma unroll
  for (int i = 0; i < kProducts; ++i) {
    multiply<true>(dq, &ds[4 * i], k + i * kNextRows, add || i > 0);
  }
  commit_products();
}

// ---- A warpgroup --------------------------------------------------------------------------------

template <bool kDropout, bool kShort>
struct Computer {
  const Job& job;
  Shared& shared;
  int group;
  Turns<kGroups> turns{group};
  Place<kStages> place{};
  Place<kRowBuffers> rows_at{};
  std::uint64_t first_k = describe(shared.k);

  __device__ std::uint64_t k_of(int stage) const { return first_k + stage * kNextTile; }

  /// Takes part without rows of its own.
  __device__ void skip() {
    for (int step = 0; step < job.key_blocks; ++step, place.next()) {
      wait(&shared.full[place.stage], place.round);
      release(&shared.empty[place.stage]);
      turns.take();
      turns.pass();
    }
    turns.take();
    turns.pass();
  }

  __device__ void compute(const Item& item, int query) {
    const int thread_word = word_of(Lane());
    Rows rows;
    load_rows(rows, job, shared.q[rows_at.stage][group], shared.y[rows_at.stage][group],
              shared.grad[rows_at.stage][group],
              std::int64_t{item.head} * job.query_blocks * kBlock + query);
    float dq[32];
    Scores scores;
    std::uint32_t ds[16];
    wait(&shared.full[place.stage], place.round);
    std::uint32_t kept = shared.mask[place.stage][group][thread_word];
    turns.take();
    fence_products();
    scores.start_s(rows, k_of(place.stage));
    scores.start_dp(rows, k_of(place.stage) + kFromKToV);
    turns.pass();
    wait_products<1>();
    scores.template weigh<kShort>(rows, job.factor, job.shape.keys);
    wait_products<0>();
    scores.template finish<kDropout>(ds, rows, kept);
    for (int step = 1; step < job.key_blocks; ++step) {
      const int before = place.stage;
      place.next();
      wait(&shared.full[place.stage], place.round);
      kept = shared.mask[place.stage][group][thread_word];
      turns.take();
      fence_products();
      scores.start_s(rows, k_of(place.stage));
      start_dq(dq, ds, k_of(before), step > 1);
      scores.start_dp(rows, k_of(place.stage) + kFromKToV);
      turns.pass();
      wait_products<2>();
      scores.template weigh<kShort>(rows, job.factor, job.shape.keys - step * kBlock);
      wait_products<0>();
      release(&shared.empty[before]);
      scores.template finish<kDropout>(ds, rows, kept);
    }
    turns.take();
    fence_products();
    start_dq(dq, ds, k_of(place.stage), job.key_blocks > 1);
    turns.pass();
    wait_products<0>();
    settle(dq);
    release(&shared.empty[place.stage]);
    place.next();
    const float scale[2] = {job.dq_scale, job.dq_scale};
    store_tile(dq, scale, job.dq, item.place(job.dq, job.shape.heads), query, job.shape.queries);
  }

  __device__ void run() {
    for_items<kGroups>(job, [this](const Item& item) {
      const int query = item.row + group * kBlock;
      wait(&shared.rows_full[rows_at.stage][group], rows_at.round);
      if (query < job.shape.queries) {
        compute(item, query);
      } else {
        skip();
      }
      release(&shared.rows_empty[rows_at.stage][group]);
      rows_at.next();
    });
    turns.end();
  }
};

template <bool kDropout, bool kShort>
__global__ void __launch_bounds__(kThreads<kGroups>, 1)
    backward_queries(const __grid_constant__ Job job) {
  share_work<kGroups, Shared, Copier, Computer<kDropout, kShort>>(job);
}

}  // namespace

int launch_backward_queries(const Backward& from, void* stream) {
  const Forward& forward = from.forward;
  const Shape& shape = forward.shape;
  Job job{};
  if (!make_map(job.q, forward.q, shape, shape.queries) ||
      !make_map(job.k, forward.k, shape, shape.keys) ||
      !make_map(job.v, forward.v, shape, shape.keys) ||
      !make_map(job.y, forward.y, shape, shape.queries) ||
      !make_map(job.grad, from.grad, shape, shape.queries)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  job.set(forward, forward.mask.by_queries, blocks_of(shape.queries), kGroups);
  job.dq = from.dq;
  job.lse = forward.lse;
  job.delta = from.delta;
  job.kept_scale = forward.kept_scale;
  job.dq_scale = forward.scale * forward.kept_scale;
  const bool is_short = shape.keys % kBlock != 0;
  const auto kernel =
      job.mask != nullptr
          ? (is_short ? backward_queries<true, true> : backward_queries<true, false>)
          : (is_short ? backward_queries<false, true> : backward_queries<false, false>);
  return launch<Shared>(kernel, job, kThreads<kGroups>, forward.processors, stream);
}

}  // namespace rotary::torch::hopper
