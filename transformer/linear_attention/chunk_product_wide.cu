// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Chunk product of many features, as FAVOR+ has them, and 64 values. The state does not fit into
// registers: a CTA has a chunk of 128 queries, its segment is hardly longer, and it computes
//
//   out = X state + sum over the key chunks j of the segment up to its own: (X Y_j^T, masked) W_j
//
// in steps of 64 features. Two of its eight warps share 32 rows: each has the scores of 64 keys and
// half of X state, and the two accumulators are added at the end. An operand that a warp reads from
// shared memory serves 32 rows: shared-memory bandwidth, not tensor cores, limits these products.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "transformer/linear_attention/chunk_product.cuh"
#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/launch.cuh"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda {
namespace {

constexpr int kTokens = 128;      // of a chunk
constexpr int kFeatureTile = 64;  // features of a step
constexpr int kValues = 64;       // of w and out
constexpr int kKeysPerWarp = 64;  // half of a chunk
constexpr int kThreads = 2 * kTokens;
constexpr int kRowTiles = 2;  // 16-row mma tiles of a warp
constexpr int kSteps = 64 / 16;
constexpr int kStages = 3;  // of the cp.async pipeline: one computed on, the others in flight

template <typename T>
struct Stage {
  Tile<T, kTokens, kFeatureTile> x;
  Tile<T, kTokens, kFeatureTile> y;  // or w
  Tile<T, kFeatureTile, kValues> state;
};

template <typename T>
union WideShared {
  Stage<T> stages[kStages];
  float sums[kTokens][kValues + 8];
};

/// Mainloop steps of a CTA: for every chunk of keys its feature tiles, then its values.
struct StepSchedule {
  std::int64_t row;      // of batch_heads
  std::int64_t segment;  // of all rows
  std::int64_t begin;    // first token of the segment
  int own;               // chunk of queries in the segment
  int first;             // chunk of keys
  int chunks;            // of keys
  int feature_tiles;

  __device__ StepSchedule(const Segments& s, std::int64_t count, int features) {
    const auto across = static_cast<int>(s.length / kTokens);
    segment = blockIdx.x / across;
    own = static_cast<int>(blockIdx.x % across);
    row = segment / count;
    begin = (segment % count) * s.length;
    const std::int64_t end = begin + s.length < s.tokens ? begin + s.length : s.tokens;
    const auto last = static_cast<int>((end - begin + kTokens - 1) / kTokens);
    first = s.reverse ? own : 0;
    chunks = own >= last ? 0 : (s.reverse ? last - own : own + 1);
    feature_tiles = (features + kFeatureTile - 1) / kFeatureTile;
  }
  __device__ int steps() const { return chunks * (feature_tiles + 1); }
  __device__ int chunk(int step) const { return first + step / (feature_tiles + 1); }
  __device__ int feature_tile(int step) const { return step % (feature_tiles + 1); }
  __device__ bool is_values(int step) const { return feature_tile(step) == feature_tiles; }
  __device__ bool has_state(int step) const { return step < feature_tiles; }
  __device__ std::int64_t token(int chunk) const { return begin + std::int64_t{chunk} * kTokens; }
};

/// A warp's part of a CTA's tiles, with its accumulators.
template <typename T>
struct WideWarpTile {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row_tile = kRowTiles * (static_cast<int>(threadIdx.x) / 32 % 4);  // the first of 16 rows
  int key_half = static_cast<int>(threadIdx.x) / 128;                   // of the chunk's keys
  int column = 2 * (lane % 4);  // of every eight: and column + 1
  Accumulator<kKeysPerWarp> scores[kRowTiles];
  Accumulator<kValues> out[kRowTiles];

  __device__ int row(int m) const { return 16 * (row_tile + m) + lane / 4; }  // and row + 8

  /// Whether the mask leaves any of this warp's keys 16 j to 16 j + 15 to its rows. kDiagonal: keys
  /// and queries are the same chunk; else all keys are visible.
  template <bool kDiagonal>
  __device__ bool any_visible(int j, bool reverse) const {
    const int keys = kSteps * key_half + j;
    return !kDiagonal || (reverse ? keys >= row_tile : keys <= row_tile + kRowTiles - 1);
  }

  /// One feature tile, `width` features: scores += X Y^T, and out += X state in the first chunk.
  template <bool kDiagonal>
  __device__ void add_features(Stage<T>& stage, int width, bool has_state, bool reverse) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (16 * k >= width) break;
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) stage.x.load_a_mk(a[m], 16 * (row_tile + m), 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!any_visible<kDiagonal>(j, reverse)) continue;
        std::uint32_t b[4];
        stage.y.load_b_nk(b, 16 * k, kKeysPerWarp * key_half + 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) scores[m].template add<T>(j, a[m], b);
      }
      if (!has_state || k % 2 != key_half) continue;
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        stage.state.load_b_kn(b, 16 * k, 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  __device__ void mask_scores(bool reverse) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < kKeysPerWarp / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int query = row(m) + 8 * (e / 2);
          const int key = kKeysPerWarp * key_half + 8 * j + column + e % 2;
          if (reverse ? key < query : key > query) scores[m].c[j][e] = 0.0F;
        }
      }
    }
  }

  /// out += scores W, after the last feature tile.
  template <bool kDiagonal>
  __device__ void add_values(Stage<T>& stage, bool reverse) {
    if constexpr (kDiagonal) mask_scores(reverse);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!any_visible<kDiagonal>(k, reverse)) continue;
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) scores[m].template as_operand_a<T>(a[m], k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        stage.y.load_b_kn(b, kKeysPerWarp * key_half + 16 * k, 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// scale times the sum of both key halves, to `to` [rows, 64], where `rows` tokens are left.
  __device__ void write(float (&sums)[kTokens][kValues + 8], T* to, const float* scale,
                        std::int64_t rows) {
    __syncthreads();  // all warps have read the last stage, whose memory `sums` shares
    const auto for_rows = [&](const auto& use) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < kValues / 8; ++j) {
            use(row(m) + 8 * i, 8 * j + column, out[m].c[j][2 * i], out[m].c[j][2 * i + 1]);
          }
        }
      }
    };
    if (key_half == 1) {
      for_rows([&](int r, int at, float x, float y) {
        *reinterpret_cast<float2*>(&sums[r][at]) = make_float2(x, y);
      });
    }
    __syncthreads();
    if (key_half == 1) return;
    for_rows([&](int r, int at, float x, float y) {
      if (r >= rows) return;
      const float factor = scale == nullptr ? 1.0F : scale[r];
      const float2 other = *reinterpret_cast<const float2*>(&sums[r][at]);
      *reinterpret_cast<std::uint32_t*>(to + std::int64_t{r} * kValues + at) =
          pack_two<T>(factor * (x + other.x), factor * (y + other.y));
    });
  }
};

template <typename T>
struct WideTensors {
  const T* x;       // [batch_heads, tokens, features]
  const T* y;       // the same
  const T* w;       // [batch_heads, tokens, 64]
  const T* states;  // [batch_heads, count, features, 64], or null
  const float* scale;
  T* out;
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    chunk_product_wide(WideTensors<T> t, Segments segments, std::int64_t count, int features) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<WideShared<T>*>(memory);
  const StepSchedule schedule(segments, count, features);
  const int steps = schedule.steps();
  if (steps == 0) return;
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = schedule.row * tokens;
  const auto load = [&](int n) {
    Stage<T>& stage = shared.stages[n % kStages];
    const std::int64_t keys = schedule.token(schedule.chunk(n));
    if (schedule.is_values(n)) {
      stage.y.template load_async<kThreads>({t.w + first * kValues, tokens, kValues, kValues},
                                            keys);
    } else {
      const int at = schedule.feature_tile(n) * kFeatureTile;
      const std::int64_t from = first * features + at;
      stage.x.template load_async<kThreads>({t.x + from, tokens, features, features - at},
                                            schedule.token(schedule.own));
      stage.y.template load_async<kThreads>({t.y + from, tokens, features, features - at}, keys);
      if (t.states != nullptr && schedule.has_state(n)) {
        const T* state = t.states + schedule.segment * features * kValues;
        stage.state.template load_async<kThreads>({state, features, kValues, kValues}, at);
      }
    }
  };
  WideWarpTile<T> warp_tile;
  for (auto& each : warp_tile.out) each.clear();
  for (int n = 0; n < kStages - 1; ++n) {
    if (n < steps) load(n);
    cp_async_commit_group();
  }
  for (int n = 0; n < steps; ++n) {
    cp_async_wait_group<kStages - 2>();
    __syncthreads();  // stage n is loaded, and all warps have read the one before
    if (n + kStages - 1 < steps) load(n + kStages - 1);
    cp_async_commit_group();
    Stage<T>& stage = shared.stages[n % kStages];
    if (schedule.feature_tile(n) == 0) {
      for (auto& each : warp_tile.scores) each.clear();
    }
    const auto add = [&](auto is_diagonal) {
      constexpr bool kDiagonal = decltype(is_diagonal)::value;
      if (schedule.is_values(n)) {
        warp_tile.template add_values<kDiagonal>(stage, segments.reverse);
      } else {
        warp_tile.template add_features<kDiagonal>(
            stage, features - schedule.feature_tile(n) * kFeatureTile,
            t.states != nullptr && schedule.has_state(n), segments.reverse);
      }
    };
    if (schedule.chunk(n) == schedule.own) {
      add(std::true_type{});
    } else {
      add(std::false_type{});
    }
  }
  const std::int64_t token = schedule.token(schedule.own);
  warp_tile.write(shared.sums, t.out + (first + token) * kValues,
                  t.scale == nullptr ? nullptr : t.scale + first + token, tokens - token);
}

template <typename T>
int launch(const ChunkProductParams& p, void* stream) {
  const WideTensors<T> tensors{.x = static_cast<const T*>(p.x),
                               .y = static_cast<const T*>(p.y),
                               .w = static_cast<const T*>(p.w),
                               .states = static_cast<const T*>(p.states),
                               .scale = p.scale,
                               .out = static_cast<T*>(p.out)};
  const Segments& s = p.segments;
  const std::int64_t blocks = s.batch_heads * s.count() * (s.length / kTokens);
  return launch_with_shared<WideShared<T>>(chunk_product_wide<T>, blocks, kThreads, stream, tensors,
                                           s, s.count(), p.dims.features);
}

}  // namespace

int wide_shared_bytes() { return sizeof(WideShared<__half>); }

int launch_chunk_product_wide(const ChunkProductParams& p, void* stream) {
  return p.type == ElementType::kBFloat16 ? launch<__nv_bfloat16>(p, stream)
                                          : launch<__half>(p, stream);
}

}  // namespace rotary::transformer::cuda
