// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Weights and their sums of values. A warpgroup has 64 queries and goes over the keys, 128 a step:
// this step's scores are computed beside the sums of the last one's weights.

#include <cstddef>

#include "attention/hopper/tiles.cuh"

namespace rotary::torch::hopper {
namespace {

constexpr int kGroups = 3;
constexpr int kStages = 3;
constexpr int kKeys = 128;
constexpr int kTiles = kKeys / kBlock;  // a step

struct Job : Work {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  Heads y;
  float* lse;
  float kept_scale;
  int steps;
};

struct Shared {
  Tile q[kGroups];
  Tile k[kStages][kTiles];
  Tile v[kStages][kTiles];
  std::uint32_t mask[kStages][kGroups][kTiles][kBlockWords];  // comes with v
  std::uint64_t q_full[kGroups];
  std::uint64_t q_empty[kGroups];
  std::uint64_t k_full[kStages];
  std::uint64_t k_empty[kStages];
  std::uint64_t v_full[kStages];
  std::uint64_t v_empty[kStages];

  __device__ void init() {
    for (int i = 0; i < kGroups; ++i) {
      init_barrier(&q_full[i], 1);
      init_barrier(&q_empty[i], kWarpsPerGroup);
    }
    for (int i = 0; i < kStages; ++i) {
      init_barrier(&k_full[i], 1);
      init_barrier(&v_full[i], 1);
      init_barrier(&k_empty[i], kGroups * kWarpsPerGroup);
      init_barrier(&v_empty[i], kGroups * kWarpsPerGroup);
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
  int round = 0;

  __device__ void copy_queries(const Item& item, int head, int batch) {
    for (int group = 0; group < kGroups; ++group) {
      wait(&shared.q_empty[group], round ^ 1);
      arrive_expecting(&shared.q_full[group], kTileBytes);
      copy_tile(&shared.q[group], job.q, &shared.q_full[group], item.row + group * kBlock, head,
                batch);
    }
  }

  __device__ void copy_keys(int step, int head, int batch) {
    wait(&shared.k_empty[place.stage], place.round ^ 1);
    std::uint64_t* full = &shared.k_full[place.stage];
    arrive_expecting(full, kTiles * kTileBytes);
    for (int i = 0; i < kTiles; ++i) {
      copy_tile(&shared.k[place.stage][i], job.k, full, step * kKeys + i * kBlock, head, batch);
    }
  }

  __device__ void copy_values(const Item& item, int step, int head, int batch) {
    const int block = item.row / kBlock;
    const int masks = job.mask == nullptr ? 0 : min(kGroups, job.query_blocks - block);
    const int bytes = min(kTiles, job.key_blocks - step * kTiles) * kMaskBytes;
    wait(&shared.v_empty[place.stage], place.round ^ 1);
    std::uint64_t* full = &shared.v_full[place.stage];
    arrive_expecting(full, kTiles * kTileBytes + masks * bytes);
    for (int i = 0; i < kTiles; ++i) {
      copy_tile(&shared.v[place.stage][i], job.v, full, step * kKeys + i * kBlock, head, batch);
    }
    for (int group = 0; group < masks; ++group) {
      const std::int64_t row = std::int64_t{item.head} * job.query_blocks + block + group;
      copy_bytes(shared.mask[place.stage][group],
                 job.mask + (row * job.key_blocks + step * kTiles) * kBlockWords, bytes, full);
    }
  }

  __device__ void run() {
    for_items<kGroups>(job, [this](const Item& item) {
      const int head = item.head % job.shape.heads;
      const int batch = item.head / job.shape.heads;
      for (int step = 0; step < job.steps; ++step, place.next()) {
        copy_keys(step, head, batch);
        if (step == 0) copy_queries(item, head, batch);
        copy_values(item, step, head, batch);
      }
      round ^= 1;
    });
  }
};

// ---- Products and weights -----------------------------------------------------------------------

__device__ void start_scores(float (&s)[64], std::uint64_t q, std::uint64_t k) {
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    multiply(s, q + i * kNextColumns, k + i * kNextColumns, i > 0);
  }
  commit_products();
}

__device__ void start_sums(float (&y)[32], const std::uint32_t (&p)[32], std::uint64_t v,
                           bool add) {
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i) {
    multiply<true>(y, &p[4 * i], v + i * kNextRows, i > 0 || add);
  }
  commit_products();
}

/// What is known of the rows of 64 queries. Weights are taken relative to that of `largest`: of the
/// largest score so far or, as long as nothing is larger by 2^kSlack, of an earlier one. So what is
/// summed up is seldom to be multiplied.
struct Rows {
  float y[32];
  float largest[2];
  float sum[2];
};
constexpr float kSlack = 8.0F;

/// What sums so far are to be multiplied by.
struct Again {
  float factor[2];
  bool changes;  // any row of the warp
};

/// Scores become weights, up to the sums.
template <bool kShort>
__device__ Again weigh(float (&s)[64], Rows& rows, float factor, int keys_left) {
  settle(s);
  if (kShort) {
    const int column = Lane().column();
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      if (8 * (i / 4) + column + i % 2 >= keys_left) s[i] = -kInfinity;
    }
  }
  float most[2];
  bool grows = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    most[h] = rows.largest[h];
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      most[h] = fmaxf(most[h], fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
    }
    most[h] = fmaxf(most[h], __shfl_xor_sync(~0U, most[h], 1));
    most[h] = fmaxf(most[h], __shfl_xor_sync(~0U, most[h], 2));
    grows = grows || (most[h] - rows.largest[h]) * factor > kSlack;
  }
  Again again;
  again.changes = __any_sync(~0U, grows);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float largest = again.changes ? most[h] : rows.largest[h];
    again.factor[h] = exp2_of((rows.largest[h] - largest) * factor);
    rows.largest[h] = largest;
    const float shift = largest * factor;
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = s[4 * j + 2 * h + e];
        x = exp2_of(fmaf(x, factor, -shift));
        sum += x;
      }
    }
    rows.sum[h] = fmaf(rows.sum[h], again.factor[h], sum);
  }
  return again;
}

template <bool kDropout>
__device__ void pack_weights(std::uint32_t (&p)[32], const float (&s)[64],
                             const std::uint32_t (&mask)[kTiles][kBlockWords]) {
  std::uint32_t words[kTiles] = {};
#pragma unroll
  for (int i = 0; kDropout && i < kTiles; ++i) words[i] = mask[i][word_of(Lane())];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    p[i] = pack(s[2 * i], s[2 * i + 1]);
    if (kDropout) p[i] &= kept_pair(words[i / 16], i % 16);
  }
}

__device__ void finish(const Job& job, const Rows& rows, const Item& item, int query) {
  const Lane lane;
  float scale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = rows.sum[h];
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    scale[h] = job.kept_scale / sum;
    const int row = query + lane.row() + 8 * h;
    // Past the end all weights will be 0.
    const float lse =
        row < job.shape.queries ? fmaf(rows.largest[h], job.factor, log2f(sum)) : kInfinity;
    if (lane.column() == 0)
      job.lse[std::int64_t{item.head} * job.query_blocks * kBlock + row] = lse;
  }
  store_tile(rows.y, scale, job.y, item.place(job.y, job.shape.heads), query, job.shape.queries);
}

// ---- A warpgroup --------------------------------------------------------------------------------

template <bool kDropout, bool kShort>
struct Computer {
  const Job& job;
  Shared& shared;
  int group;
  Turns<kGroups> turns{group};
  Place<kStages> k{};
  Place<kStages> v{};
  std::uint64_t q = describe(&shared.q[group]);
  std::uint64_t first_k = describe(shared.k);

  __device__ std::uint64_t k_of(int stage) const { return first_k + stage * kTiles * kNextTile; }
  __device__ std::uint64_t v_of(int stage) const { return k_of(stage) + kFromKToV; }

  /// Takes part without rows of its own.
  __device__ void skip() {
    release(&shared.q_empty[group]);
    for (int step = 0; step < job.steps; ++step, k.next(), v.next()) {
      wait(&shared.k_full[k.stage], k.round);
      release(&shared.k_empty[k.stage]);
      wait(&shared.v_full[v.stage], v.round);
      release(&shared.v_empty[v.stage]);
      turns.take();
      turns.pass();
    }
    turns.take();
    turns.pass();
  }

  __device__ void compute(const Item& item, int query) {
    Rows rows;
    rows.largest[0] = rows.largest[1] = -kInfinity;
    rows.sum[0] = rows.sum[1] = 0.0F;
    float s[64];
    std::uint32_t p[32];
    wait(&shared.k_full[k.stage], k.round);
    turns.take();
    fence_products();
    start_scores(s, q, k_of(k.stage));
    turns.pass();
    wait_products<0>();
    release(&shared.k_empty[k.stage]);
    k.next();
    if (job.steps == 1) release(&shared.q_empty[group]);
    weigh<kShort>(s, rows, job.factor, job.shape.keys);
    wait(&shared.v_full[v.stage], v.round);
    pack_weights<kDropout>(p, s, shared.mask[v.stage][group]);
    for (int step = 1; step < job.steps; ++step) {
      wait(&shared.k_full[k.stage], k.round);
      turns.take();
      fence_products();
      start_scores(s, q, k_of(k.stage));
      start_sums(rows.y, p, v_of(v.stage), step > 1);
      turns.pass();
      wait_products<1>();
      release(&shared.k_empty[k.stage]);
      k.next();
      if (step + 1 == job.steps) release(&shared.q_empty[group]);
      const Again again = weigh<kShort>(s, rows, job.factor, job.shape.keys - step * kKeys);
      wait_products<0>();
      settle(rows.y);
      release(&shared.v_empty[v.stage]);
      v.next();
      if (again.changes) {
#pragma unroll
        for (int i = 0; i < 32; ++i) rows.y[i] *= again.factor[i / 2 % 2];
      }
      wait(&shared.v_full[v.stage], v.round);
      pack_weights<kDropout>(p, s, shared.mask[v.stage][group]);
    }
    turns.take();
    fence_products();
    start_sums(rows.y, p, v_of(v.stage), job.steps > 1);
    turns.pass();
    wait_products<0>();
    settle(rows.y);
    release(&shared.v_empty[v.stage]);
    v.next();
    finish(job, rows, item, query);
  }

  __device__ void run() {
    int round = 0;
    for_items<kGroups>(job, [this, &round](const Item& item) {
      const int query = item.row + group * kBlock;
      wait(&shared.q_full[group], round);
      if (query < job.shape.queries) {
        compute(item, query);
      } else {
        skip();
      }
      round ^= 1;
    });
    turns.end();
  }
};

template <bool kDropout, bool kShort>
__global__ void __launch_bounds__(kThreads<kGroups>, 1) forward(const __grid_constant__ Job job) {
  share_work<kGroups, Shared, Copier, Computer<kDropout, kShort>>(job);
}

}  // namespace

int launch_forward(const Forward& from, void* stream) {
  const Shape& shape = from.shape;
  Job job{};
  if (!make_map(job.q, from.q, shape, shape.queries) ||
      !make_map(job.k, from.k, shape, shape.keys) || !make_map(job.v, from.v, shape, shape.keys)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  job.set(from, from.mask.by_queries, blocks_of(shape.queries), kGroups);
  job.y = from.y;
  job.lse = from.lse;
  job.kept_scale = from.kept_scale;
  job.steps = (shape.keys + kKeys - 1) / kKeys;
  const bool is_short = shape.keys % kKeys != 0;
  const auto kernel = job.mask != nullptr
                          ? (is_short ? forward<true, true> : forward<true, false>)
                          : (is_short ? forward<false, true> : forward<false, false>);
  return launch<Shared>(kernel, job, kThreads<kGroups>, from.processors, stream);
}

}  // namespace rotary::torch::hopper
