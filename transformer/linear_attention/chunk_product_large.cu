// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Chunk product with a state of up to 64 x 256, 256 x 64 or 128 x 128: one CTA per SM holds it in
// the registers of eight warps, in float. It scans a segment in chunks of 64 tokens:
//
//   scores = causal mask of X Y^T     out = scores W + X state     state += Y^T W
//
// A warp has 32 rows and a quarter of the columns of scores and out, and 32 features x 64 values of
// the state.

#include <cuda_runtime.h>

#include <cstdint>

#include "transformer/linear_attention/chunk_product.cuh"
#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/launch.cuh"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda {
namespace {

constexpr int kTokens = 64;  // of a chunk
constexpr int kThreads = 256;
constexpr int kRowTiles = 2;  // 16-row mma tiles of a warp
constexpr int kSteps = kTokens / 16;

template <typename T>
struct LargeTensors {
  const T* x;           // [batch_heads, tokens, features]
  const T* y;           // the same
  const T* w;           // [batch_heads, tokens, values]
  const float* scale;   // [batch_heads, tokens], or null
  const float* states;  // [batch_heads, count, features, values], or null
  T* out;               // [batch_heads, tokens, values]
};

/// F features, E values.
template <typename T, int F, int E>
struct LargeShared {
  Tile<T, kTokens, F> x[2];
  Tile<T, kTokens, F> y[2];
  Tile<T, kTokens, E> w[2];
  Tile<T, F, E> state;
  Tile<T, kTokens, kTokens> scores;
};

/// A warp's part of a CTA's tiles, with its accumulators.
template <typename T, int F, int E>
struct LargeWarpTile {
  static constexpr int kColumns = E / 4;  // of out
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = 32 * (warp % 2);             // first row of scores and out
  int warp_n = warp / 2;                 // which quarter of their columns
  int feature = 32 * (warp % (F / 32));  // first row of the state
  int value = 64 * (warp / (F / 32));    // first column of the state
  int lane_row = lane / 4;               // of every 16: and lane_row + 8
  int lane_column = 2 * (lane % 4);      // of every eight: and lane_column + 1
  Accumulator<64> state[kRowTiles];
  Accumulator<kColumns> out[kRowTiles];

  /// Whether the mask leaves any of the keys 16 k to 16 k + 15 to this warp's rows.
  __device__ bool any_visible(int k, bool reverse) const {
    return reverse ? 16 * k + 15 >= row : 16 * k <= row + 31;
  }

  /// Calls use(feature, value, first, second) for each two neighbours of this warp's state.
  template <typename Use>
  __device__ void for_state(const Use& use) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float(&c)[4] = state[m].c[j];
        use(feature + 16 * m + lane_row, value + 8 * j + lane_column, c[0], c[1]);
        use(feature + 16 * m + lane_row + 8, value + 8 * j + lane_column, c[2], c[3]);
      }
    }
  }
  __device__ void load_state(const InitialState& initial, const StateDims& dims) {
    for (Accumulator<64>& each : state) each.clear();
    initial.for_each([&](const float* from) {
      for_state([&](int f, int e, float& first, float& second) {
        if (f >= dims.features || e >= dims.values) return;
        const float2 both = *reinterpret_cast<const float2*>(from + f * dims.values + e);
        first += both.x;
        second += both.y;
      });
    });
  }
  __device__ void store_state(Tile<T, F, E>& to) {
    for_state([&](int f, int e, float first, float second) {
      *reinterpret_cast<std::uint32_t*>(to.at(f, e)) = pack_two<T>(first, second);
    });
  }

  /// Inter-chunk part, out = X state, and 16 columns of the masked intra-chunk scores.
  __device__ void multiply_features(Tile<T, kTokens, F>& x, Tile<T, kTokens, F>& y,
                                    Tile<T, F, E>& before, Tile<T, kTokens, kTokens>& scores,
                                    int features, bool reverse) {
    const bool visible = any_visible(warp_n, reverse);
    Accumulator<16> s[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      s[m].clear();
      out[m].clear();
    }
#pragma unroll 4
    for (int k = 0; 16 * k < features; ++k) {
      std::uint32_t a[kRowTiles][4];
      std::uint32_t b[4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) x.load_a_mk(a[m], row + 16 * m, 16 * k);
      if (visible) {
        y.load_b_nk(b, 16 * k, 16 * warp_n);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) s[m].template add<T>(0, a[m], b);
      }
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        before.load_b_kn(b, 16 * k, kColumns * warp_n + 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
    if (!visible) return;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int query = row + 16 * m + lane_row + 8 * i;
          const int key = 16 * warp_n + 8 * j + lane_column;
          const auto masked = [&](int at, float x) {
            return (reverse ? at < query : at > query) ? 0.0F : x;
          };
          const float(&c)[4] = s[m].c[j];
          *reinterpret_cast<std::uint32_t*>(scores.at(query, key)) =
              pack_two<T>(masked(key, c[2 * i]), masked(key + 1, c[2 * i + 1]));
        }
      }
    }
  }

  /// Intra-chunk part: out += scores W.
  __device__ void multiply_scores(Tile<T, kTokens, kTokens>& scores, Tile<T, kTokens, E>& w,
                                  bool reverse) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!any_visible(k, reverse)) continue;
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) scores.load_a_mk(a[m], row + 16 * m, 16 * k);
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        std::uint32_t b[4];
        w.load_b_kn(b, 16 * k, kColumns * warp_n + 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// state += Y^T W.
  __device__ void update_state(Tile<T, kTokens, F>& y, Tile<T, kTokens, E>& w) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[kRowTiles][4];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) y.load_a_km(a[m], feature + 16 * m, 16 * k);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::uint32_t b[4];
        w.load_b_kn(b, 16 * k, value + 16 * j);
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) state[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// scale out, to `to` [rows, values], where `rows` tokens are left.
  __device__ void write(T* to, const float* scale, std::int64_t rows, int values) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int query = row + 16 * m + lane_row + 8 * i;
        if (query >= rows) continue;
        const float factor = scale == nullptr ? 1.0F : scale[query];
        T* const at = to + std::int64_t{query} * values;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          const int e = kColumns * warp_n + 8 * j + lane_column;
          if (e >= values) continue;
          *reinterpret_cast<std::uint32_t*>(at + e) =
              pack_two<T>(factor * out[m].c[j][2 * i], factor * out[m].c[j][2 * i + 1]);
        }
      }
    }
  }
};

template <typename T, int F, int E>
__global__ void __launch_bounds__(kThreads, 1)
    chunk_product_large(LargeTensors<T> t, Segments segments, std::int64_t count, StateDims dims) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<LargeShared<T, F, E>*>(memory);
  const bool reverse = segments.reverse;
  const SegmentChunks own(segments, count, blockIdx.x, kTokens);
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = own.row * tokens;
  const auto source = [&](const T* from, int width) {
    return TileSource<T>{from + first * width, tokens, width, width};
  };
  const TileSource<T> xs = source(t.x, dims.features);
  const TileSource<T> ys = source(t.y, dims.features);
  const TileSource<T> ws = source(t.w, dims.values);
  const auto load = [&](int i) {
    shared.x[i % 2].template load_async<kThreads>(xs, own.token(i, kTokens));
    shared.y[i % 2].template load_async<kThreads>(ys, own.token(i, kTokens));
    shared.w[i % 2].template load_async<kThreads>(ws, own.token(i, kTokens));
    cp_async_commit_group();
  };
  load(0);
  LargeWarpTile<T, F, E> warp_tile;
  warp_tile.load_state(InitialState(t.states, segments, count, blockIdx.x, dims), dims);
  for (int i = 0; i < own.chunks; ++i) {
    __syncthreads();  // all warps have read the previous chunk and state
    warp_tile.store_state(shared.state);
    prefetch_next(i, own.chunks, load);
    __syncthreads();
    warp_tile.multiply_features(shared.x[i % 2], shared.y[i % 2], shared.state, shared.scores,
                                dims.features, reverse);
    if (i + 1 < own.chunks) warp_tile.update_state(shared.y[i % 2], shared.w[i % 2]);
    __syncthreads();  // scores are complete
    warp_tile.multiply_scores(shared.scores, shared.w[i % 2], reverse);
    const std::int64_t token = own.token(i, kTokens);
    warp_tile.write(t.out + (first + token) * dims.values,
                    t.scale == nullptr ? nullptr : t.scale + first + token, tokens - token,
                    dims.values);
  }
}

template <typename T, int F, int E>
int launch(const LargeTensors<T>& tensors, const ChunkProductParams& p, void* stream) {
  const Segments& s = p.segments;
  return launch_with_shared<LargeShared<T, F, E>>(chunk_product_large<T, F, E>,
                                                  s.batch_heads * s.count(), kThreads, stream,
                                                  tensors, s, s.count(), p.dims);
}

template <typename T>
int launch(const ChunkProductParams& p, void* stream) {
  const LargeTensors<T> tensors{.x = static_cast<const T*>(p.x),
                                .y = static_cast<const T*>(p.y),
                                .w = static_cast<const T*>(p.w),
                                .scale = p.scale,
                                .states = static_cast<const float*>(p.states),
                                .out = static_cast<T*>(p.out)};
  if (p.dims.features <= 64) return launch<T, 64, 256>(tensors, p, stream);
  if (p.dims.values <= 64) return launch<T, 256, 64>(tensors, p, stream);
  return launch<T, 128, 128>(tensors, p, stream);
}

}  // namespace

int large_shared_bytes(const StateDims& dims) {
  if (dims.features <= 64) return sizeof(LargeShared<__half, 64, 256>);
  if (dims.values <= 64) return sizeof(LargeShared<__half, 256, 64>);
  return sizeof(LargeShared<__half, 128, 128>);
}

int launch_chunk_product_large(const ChunkProductParams& p, void* stream) {
  return p.type == ElementType::kBFloat16 ? launch<__nv_bfloat16>(p, stream)
                                          : launch<__half>(p, stream);
}

}  // namespace rotary::transformer::cuda
