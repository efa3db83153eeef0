// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// The gradients of keys and values. A warpgroup has 64 keys and goes over the queries, 64 a step:
// scores have a row for each key, so that weights and their gradients lie in registers as the
// products with the output's gradient and the queries want them. This step's scores are computed
// beside the last one's products.
//
// A block of 64 keys and queries takes the tensor cores 512 cycles and each warp 305 instructions,
// of which the exponentials take 256. Registers allow two warpgroups, which get to about 900 cycles
// a block. What counts is the way from a warpgroup's scores to its next products: whatever does not
// need the weights' gradient is done before that is there.

#include <cstddef>

#include "attention/hopper/tiles.cuh"

namespace rotary::torch::hopper {
namespace {

constexpr int kGroups = 2;
constexpr int kStages = 6;
constexpr int kProducts = kHeadDim / 16;  // to a tile

struct Job : Work {
  CUtensorMap q;
  CUtensorMap k;
  CUtensorMap v;
  CUtensorMap grad;
  Heads dk;
  Heads dv;
  const float* lse;
  const float* delta;
  float dk_scale;
  float dv_scale;
};

struct Sums {
  float lse[kBlock];
  float delta[kBlock];
};
constexpr int kSumBytes = kBlock * 4;

struct Shared {
  Tile k[kGroups];
  Tile v[kGroups];
  Tile q[kStages];
  Tile grad[kStages];
  Sums sums[kStages];
  std::uint32_t mask[kStages][kGroups][kBlockWords];
  std::uint64_t rows_full[kGroups];
  std::uint64_t rows_empty[kGroups];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ void init() {
    for (int i = 0; i < kGroups; ++i) {
      init_barrier(&rows_full[i], 1);
      init_barrier(&rows_empty[i], kWarpsPerGroup);
    }
    for (int i = 0; i < kStages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], kGroups * kWarpsPerGroup);
    }
  }
};

/// Between the descriptors of a stage.
constexpr int kFromQToGrad = (offsetof(Shared, grad) - offsetof(Shared, q)) >> 4;

// ---- Copies -------------------------------------------------------------------------------------

struct Copier {
  const Job& job;
  Shared& shared;
  Place<kStages> place{};
  int round = 0;

  __device__ void copy_rows(const Item& item, int head, int batch) {
    for (int group = 0; group < kGroups; ++group) {
      wait(&shared.rows_empty[group], round ^ 1);
      std::uint64_t* full = &shared.rows_full[group];
      const int key = item.row + group * kBlock;
      arrive_expecting(full, 2 * kTileBytes);
      copy_tile(&shared.k[group], job.k, full, key, head, batch);
      copy_tile(&shared.v[group], job.v, full, key, head, batch);
    }
  }

  __device__ void copy_queries(const Item& item, int step, int head, int batch) {
    const int block = item.row / kBlock;
    const int masks = job.mask == nullptr ? 0 : min(kGroups, job.key_blocks - block);
    const std::int64_t first = (std::int64_t{item.head} * job.query_blocks + step) * kBlock;
    wait(&shared.empty[place.stage], place.round ^ 1);
    std::uint64_t* full = &shared.full[place.stage];
    arrive_expecting(full, 2 * (kTileBytes + kSumBytes) + masks * kMaskBytes);
    copy_tile(&shared.q[place.stage], job.q, full, step * kBlock, head, batch);
    copy_tile(&shared.grad[place.stage], job.grad, full, step * kBlock, head, batch);
    copy_bytes(shared.sums[place.stage].lse, job.lse + first, kSumBytes, full);
    copy_bytes(shared.sums[place.stage].delta, job.delta + first, kSumBytes, full);
    for (int group = 0; group < masks; ++group) {
      const std::int64_t row = std::int64_t{item.head} * job.key_blocks + block + group;
      copy_bytes(shared.mask[place.stage][group],
                 job.mask + (row * job.query_blocks + step) * kBlockWords, kMaskBytes, full);
    }
  }

  __device__ void run() {
    for_items<kGroups>(job, [this](const Item& item) {
      const int head = item.head % job.shape.heads;
      const int batch = item.head / job.shape.heads;
      copy_rows(item, head, batch);
      for (int step = 0; step < job.query_blocks; ++step, place.next()) {
        copy_queries(item, step, head, batch);
      }
      round ^= 1;
    });
  }
};

// ---- Products and weights -----------------------------------------------------------------------

/// What a warpgroup knows about its 64 keys.
struct Rows {
  std::uint32_t k[4 * kProducts];
  std::uint32_t v[4 * kProducts];
  float dk[32];
  float dv[32];

  __device__ void load(const Tile& keys, const Tile& values) {
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      load_operand(&k[4 * i], &keys, i);
      load_operand(&v[4 * i], &values, i);
    }
  }
};

/// What it knows about them and 64 queries: a row a key, a column a query.
struct Scores {
  float s[32];
  float dp[32];
  float dropped[32];     // the scores' gradient, up to its scale, were nothing kept
  std::uint32_t p[16];   // kept weights
  std::uint32_t ds[16];  // the scores' gradient, up to its scale
  float2 lse[8];         // of its queries
  std::uint32_t kept;    // bits

  __device__ void start(int i, const Rows& rows, std::uint64_t q) {
    multiply<false>(s, &rows.k[4 * i], q + i * kNextColumns, i > 0);
  }
  __device__ void start_gradient(int i, const Rows& rows, std::uint64_t grad) {
    multiply<false>(dp, &rows.v[4 * i], grad + i * kNextColumns, i > 0);
  }
  __device__ void start_dv(int i, Rows& rows, std::uint64_t grad, bool add) const {
    multiply<true>(rows.dv, &p[4 * i], grad + i * kNextRows, add || i > 0);
  }
  __device__ void start_dk(int i, Rows& rows, std::uint64_t q, bool add) const {
    multiply<true>(rows.dk, &ds[4 * i], q + i * kNextRows, add || i > 0);
  }

  /// What weigh() will want, while there is time.
  __device__ void load(const Sums& sums, std::uint32_t mask) {
    load(lse, sums.lse);
    kept = mask;
  }

  /// Scores become weights, and those kept are packed; s is what is left of them.
  template <bool kDropout>
  __device__ void weigh(const Sums& sums, float factor) {
    settle(s);
    float2 delta[8];
    load(delta, sums.delta);
#pragma unroll
    for (int i = 0; i < 32; ++i) s[i] = exp2_of(fmaf(s[i], factor, -of(lse, i)));
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      const int i = number_of(bit);
      dropped[i] = -s[i] * of(delta, i);
      if (kDropout && (kept & 1U << bit) == 0) s[i] = 0.0F;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = pack(s[2 * i], s[2 * i + 1]);
    // Compilers would put all that off until the gradient is there.
    settle(s);
    settle(dropped);
    settle(p);
  }

  __device__ void finish() {
    settle(dp);
#pragma unroll
    for (int i = 0; i < 32; ++i) dp[i] = fmaf(s[i], dp[i], dropped[i]);
#pragma unroll
    for (int i = 0; i < 16; ++i) ds[i] = pack(dp[2 * i], dp[2 * i + 1]);
  }

 private:
  /// For the thread's columns.
  __device__ static void load(float2 (&to)[8], const float (&from)[kBlock]) {
    const int column = Lane().column();
#pragma unroll
    for (int j = 0; j < 8; ++j) to[j] = *reinterpret_cast<const float2*>(&from[8 * j + column]);
  }
  /// For number i.
  __device__ static float of(const float2 (&x)[8], int i) {
    return i % 2 == 0 ? x[i / 4].x : x[i / 4].y;
  }
};

// ---- A warpgroup --------------------------------------------------------------------------------

template <bool kDropout>
struct Computer {
  const Job& job;
  Shared& shared;
  int group;
  Turns<kGroups> turns{group};
  Place<kStages> place{};
  std::uint64_t first_q = describe(shared.q);

  __device__ std::uint64_t q_of(int stage) const { return first_q + stage * kNextTile; }

  /// Takes part without rows of its own.
  __device__ void skip() {
    release(&shared.rows_empty[group]);
    for (int step = 0; step < job.query_blocks; ++step, place.next()) {
      wait(&shared.full[place.stage], place.round);
      release(&shared.empty[place.stage]);
      turns.take();
      turns.pass();
    }
    turns.take();
    turns.pass();
  }

  __device__ void start_first(Scores& scores, const Rows& rows) {
    const std::uint64_t q = describe(&shared.q[place.stage]);
    const std::uint64_t grad = describe(&shared.grad[place.stage]);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) scores.start(i, rows, q);
    commit_products();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) scores.start_gradient(i, rows, grad);
    commit_products();
  }

  __device__ void start_last(const Scores& scores, Rows& rows, bool add) {
    const std::uint64_t q = describe(&shared.q[place.stage]);
    const std::uint64_t grad = describe(&shared.grad[place.stage]);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      scores.start_dv(i, rows, grad, add);
      scores.start_dk(i, rows, q, add);
    }
    commit_products();
  }

  /// Products of two steps, those first that are wanted first.
  __device__ void start(Scores& scores, Rows& rows, int before, bool add) {
    const std::uint64_t q = q_of(place.stage);
    const std::uint64_t grad = q + kFromQToGrad;
    const std::uint64_t q_before = q_of(before);
    const std::uint64_t grad_before = q_before + kFromQToGrad;
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      scores.start(i, rows, q);
      scores.start_dv(i, rows, grad_before, add);
    }
    commit_products();
#pragma unroll
    for (int i = 0; i < kProducts; ++i) {
      scores.start_dk(i, rows, q_before, add);
      scores.start_gradient(i, rows, grad);
    }
    commit_products();
  }

  /// The part of a step before its products.
  __device__ void load(Scores& scores, int thread_word) {
    scores.load(shared.sums[place.stage], shared.mask[place.stage][group][thread_word]);
  }

  __device__ void compute(const Item& item, int key) {
    const int thread_word = word_of(Lane());
    Rows rows;
    rows.load(shared.k[group], shared.v[group]);
    release(&shared.rows_empty[group]);
    Scores scores;
    wait(&shared.full[place.stage], place.round);
    load(scores, thread_word);
    turns.take();
    fence_products();
    start_first(scores, rows);
    turns.pass();
    wait_products<1>();
    scores.template weigh<kDropout>(shared.sums[place.stage], job.factor);
    wait_products<0>();
    scores.finish();
    bool full = false;  // the next stage, as seen while there was time
    for (int step = 1; step < job.query_blocks; ++step) {
      const int before = place.stage;
      place.next();
      if (!full) wait(&shared.full[place.stage], place.round);
      load(scores, thread_word);
      turns.take();
      fence_products();
      start(scores, rows, before, step > 1);
      turns.pass();
      wait_products<1>();
      scores.template weigh<kDropout>(shared.sums[place.stage], job.factor);
      wait_products<0>();
      release(&shared.empty[before]);
      Place<kStages> following = place;
      following.next();
      full = is_done(&shared.full[following.stage], following.round);
      scores.finish();
    }
    turns.take();
    fence_products();
    start_last(scores, rows, job.query_blocks > 1);
    turns.pass();
    wait_products<0>();
    settle(rows.dk);
    settle(rows.dv);
    release(&shared.empty[place.stage]);
    place.next();
    store(rows.dk, job.dk_scale, job.dk, item, key);
    store(rows.dv, job.dv_scale, job.dv, item, key);
  }

  __device__ void store(const float (&x)[32], float factor, const Heads& to, const Item& item,
                        int key) const {
    const float scale[2] = {factor, factor};
    store_tile(x, scale, to, item.place(to, job.shape.heads), key, job.shape.keys);
  }

  __device__ void run() {
    int round = 0;
    for_items<kGroups>(job, [this, &round](const Item& item) {
      const int key = item.row + group * kBlock;
      wait(&shared.rows_full[group], round);
      if (key < job.shape.keys) {
        compute(item, key);
      } else {
        skip();
      }
      round ^= 1;
    });
    turns.end();
  }
};

template <bool kDropout>
__global__ void __launch_bounds__(kThreads<kGroups>, 1)
    backward_keys(const __grid_constant__ Job job) {
  share_work<kGroups, Shared, Copier, Computer<kDropout>>(job);
}

}  // namespace

int launch_backward_keys(const Backward& from, void* stream) {
  const Forward& forward = from.forward;
  const Shape& shape = forward.shape;
  Job job{};
  if (!make_map(job.q, forward.q, shape, shape.queries) ||
      !make_map(job.k, forward.k, shape, shape.keys) ||
      !make_map(job.v, forward.v, shape, shape.keys) ||
      !make_map(job.grad, from.grad, shape, shape.queries)) {
    return static_cast<int>(cudaErrorInvalidValue);
  }
  job.set(forward, forward.mask.by_keys, blocks_of(shape.keys), kGroups);
  job.dk = from.dk;
  job.dv = from.dv;
  job.lse = forward.lse;
  job.delta = from.delta;
  job.dk_scale = forward.scale * forward.kept_scale;
  job.dv_scale = forward.kept_scale;
  const auto kernel = job.mask != nullptr ? backward_keys<true> : backward_keys<false>;
  return launch<Shared>(kernel, job, kThreads<kGroups>, forward.processors, stream);
}

}  // namespace rotary::torch::hopper
