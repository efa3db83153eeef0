// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Chunk product with 64 x 64 blocks of the state, and the states of segments. A CTA of four warps
// scans one segment in chunks of 64 tokens and holds its block of the state sum_j y_j w_j^T in
// registers, in float. For every chunk:
//
//   scores = causal mask of X Y^T     out = scores W + X state     state += Y^T W
//
// A warp has 16 rows of scores and out, and 16 rows (features) of the state.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "transformer/linear_attention/chunk_product.cuh"
#include "transformer/linear_attention/kernels.h"
#include "transformer/linear_attention/launch.cuh"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda {
namespace {

constexpr int kTile = kSmallTile;  // and tokens of a chunk
constexpr int kThreads = 2 * kTile;

template <typename T>
using SquareTile = Tile<T, kTile, kTile>;

/// Block of the state: kTile features and kTile values, or those that are left.
struct StateBlock {
  int first_feature;
  int first_value;
  int features;  // left from the first one on
  int values;
  int stride;  // values of the whole state

  __device__ StateBlock(const StateDims& dims, int block, int tile) {
    const int across = (dims.values + tile - 1) / tile;
    first_feature = block / across * tile;
    first_value = block % across * tile;
    features = dims.features - first_feature;
    values = dims.values - first_value;
    stride = dims.values;
  }
  /// Offset of an element of this block in a state [features, values].
  __device__ int at(int row, int column) const {
    return (first_feature + row) * stride + first_value + column;
  }
};

/// A warp's part of a CTA's tiles.
template <typename T>
struct WarpTile {
  static constexpr int kSteps = kTile / 16;
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = 16 * warp + lane / 4;  // and row + 8
  int column = 2 * (lane % 4);     // of every eight: and column + 1

  /// state += Y^T W, of `columns` values. kFull: of kTile, known at compile time.
  template <bool kFull>
  __device__ void update_state(Accumulator<kTile>& state, SquareTile<T>& y, SquareTile<T>& w,
                               int columns) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[4];
      y.load_a_km(a, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!kFull && 16 * j >= columns) break;
        std::uint32_t b[4];
        w.load_b_kn(b, 16 * k, 16 * j);
        state.template add<T>(j, a, b);
      }
    }
  }

  /// Intra-chunk scores X Y^T, masked.
  __device__ void scores(Accumulator<kTile>& s, SquareTile<T>& x, SquareTile<T>& y, bool reverse) {
    s.clear();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[4];
      x.load_a_mk(a, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        y.load_b_nk(b, 16 * k, 16 * j);
        s.template add<T>(j, a, b);
      }
    }
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = row + 8 * (e / 2);
        const int key = 8 * j + column + e % 2;
        if (reverse ? key < query : key > query) s.c[j][e] = 0.0F;
      }
    }
  }

  /// out = scores W + X state.
  template <bool kFull>
  __device__ void outputs(Accumulator<kTile>& out, const Accumulator<kTile>& s, SquareTile<T>& x,
                          SquareTile<T>& w, SquareTile<T>& state, int columns) {
    out.clear();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t from_scores[4];
      s.template as_operand_a<T>(from_scores, k);
      std::uint32_t from_x[4];
      x.load_a_mk(from_x, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!kFull && 16 * j >= columns) break;
        std::uint32_t b[4];
        w.load_b_kn(b, 16 * k, 16 * j);
        out.template add<T>(j, from_scores, b);
        state.load_b_kn(b, 16 * k, 16 * j);
        out.template add<T>(j, from_x, b);
      }
    }
  }

  /// Rounds an accumulator to a tile; `upper` scales rows `row`, `lower` rows `row + 8`.
  __device__ void store(SquareTile<T>& tile, const Accumulator<kTile>& sums, float upper,
                        float lower) {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
      const int at = 8 * j + column;
      const float(&c)[4] = sums.c[j];
      *reinterpret_cast<std::uint32_t*>(tile.at(row, at)) = pack_two<T>(upper * c[0], upper * c[1]);
      *reinterpret_cast<std::uint32_t*>(tile.at(row + 8, at)) =
          pack_two<T>(lower * c[2], lower * c[3]);
    }
  }

  /// This CTA's block of the initial state.
  __device__ void load_state(Accumulator<kTile>& state, const InitialState& initial,
                             const StateBlock& block) {
    state.clear();
    initial.for_each([&](const float* from) {
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
        const int at = 8 * j + column;
        if (at >= block.values || row >= block.features) continue;
        const float2 upper = *reinterpret_cast<const float2*>(from + block.at(row, at));
        const float2 lower = *reinterpret_cast<const float2*>(from + block.at(row + 8, at));
        state.c[j][0] += upper.x;
        state.c[j][1] += upper.y;
        state.c[j][2] += lower.x;
        state.c[j][3] += lower.y;
      }
    });
  }

  __device__ void store_state(const Accumulator<kTile>& state, float* to, const StateBlock& block) {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
      const int at = 8 * j + column;
      const float(&c)[4] = state.c[j];
      if (at < block.values && row < block.features) {
        *reinterpret_cast<float2*>(to + block.at(row, at)) = make_float2(c[0], c[1]);
        *reinterpret_cast<float2*>(to + block.at(row + 8, at)) = make_float2(c[2], c[3]);
      }
    }
  }

  /// The warp's 16 rows of a tile, to `to` [tokens, stride] from row `begin`.
  __device__ void write(SquareTile<T>& tile, T* to, std::int64_t begin, std::int64_t tokens,
                        std::int64_t stride, int columns) {
    constexpr int kPacks = kTile / kPackSize;
    for (int i = lane; i < 16 * kPacks; i += 32) {
      const int r = 16 * warp + i / kPacks;
      const int at = (i % kPacks) * kPackSize;
      if (begin + r < tokens && at < columns) {
        *reinterpret_cast<uint4*>(to + (begin + r) * stride + at) =
            *reinterpret_cast<const uint4*>(tile.at(r, at));
      }
    }
  }
};

// ---- States of segments -------------------------------------------------------------------------

template <typename T>
struct StatesShared {
  SquareTile<T> y[2];
  SquareTile<T> w[2];
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_states(const T* y, const T* w, float* states, Segments segments, StateDims dims,
                   std::int64_t count, int state_blocks) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<StatesShared<T>*>(memory);
  const SegmentChunks own(segments, count, blockIdx.x / state_blocks, kTile);
  const StateBlock block(dims, static_cast<int>(blockIdx.x) % state_blocks, kTile);
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = own.row * tokens;
  const TileSource<T> ys{y + first * dims.features + block.first_feature, tokens, dims.features,
                         block.features};
  const TileSource<T> ws{w + first * dims.values + block.first_value, tokens, dims.values,
                         block.values};
  const auto load = [&](int i) {
    shared.y[i % 2].template load_async<kThreads>(ys, own.token(i, kTile));
    shared.w[i % 2].template load_async<kThreads>(ws, own.token(i, kTile));
    cp_async_commit_group();
  };
  WarpTile<T> warp_tile;
  Accumulator<kTile> state;
  state.clear();
  load(0);
  for (int i = 0; i < own.chunks; ++i) {
    __syncthreads();
    prefetch_next(i, own.chunks, load);
    __syncthreads();
    if (16 * warp_tile.warp >= block.features) continue;
    if (block.values >= kTile) {
      warp_tile.template update_state<true>(state, shared.y[i % 2], shared.w[i % 2], kTile);
    } else {
      warp_tile.template update_state<false>(state, shared.y[i % 2], shared.w[i % 2], block.values);
    }
  }
  warp_tile.store_state(state, states + own.segment * dims.features * dims.values, block);
}

// ---- Chunk product ------------------------------------------------------------------------------

/// Double-buffered tiles: cp.async fills one set while the other is computed on.
template <typename T>
struct SmallShared {
  SquareTile<T> x[2];
  SquareTile<T> y[2];
  SquareTile<T> w[2];
  SquareTile<T> state;
};

template <typename T>
__global__ void __launch_bounds__(kThreads, kSmallCtasPerSm)
    chunk_product_small(const T* x, const T* y, const T* w, const float* scale, const float* states,
                        T* out, Segments segments, StateDims dims, std::int64_t count,
                        int state_blocks) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<SmallShared<T>*>(memory);
  const SegmentChunks own(segments, count, blockIdx.x / state_blocks, kTile);
  const StateBlock block(dims, static_cast<int>(blockIdx.x) % state_blocks, kTile);
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = own.row * tokens;
  const std::int64_t values = first * dims.values + block.first_value;
  const TileSource<T> xs{x + first * kTile, tokens, kTile, kTile};
  const TileSource<T> ys{y + first * kTile, tokens, kTile, kTile};
  const TileSource<T> ws{w + values, tokens, dims.values, block.values};
  const auto load = [&](int i) {
    const std::int64_t token = own.token(i, kTile);
    shared.x[i % 2].template load_async<kThreads>(xs, token);
    shared.y[i % 2].template load_async<kThreads>(ys, token);
    shared.w[i % 2].template load_async<kThreads>(ws, token);
    cp_async_commit_group();
  };
  WarpTile<T> warp_tile;
  Accumulator<kTile> state;
  warp_tile.load_state(state, InitialState(states, segments, count, own.segment, dims), block);
  load(0);
  for (int i = 0; i < own.chunks; ++i) {
    __syncthreads();  // all warps have read the previous chunk and state
    warp_tile.store(shared.state, state, 1.0F, 1.0F);
    prefetch_next(i, own.chunks, load);
    __syncthreads();
    SquareTile<T>& tile = shared.x[i % 2];
    Accumulator<kTile> s;
    warp_tile.scores(s, tile, shared.y[i % 2], segments.reverse);
    Accumulator<kTile> result;
    const auto multiply_values = [&](auto full) {
      constexpr bool kFull = decltype(full)::value;
      warp_tile.template outputs<kFull>(result, s, tile, shared.w[i % 2], shared.state,
                                        block.values);
      warp_tile.template update_state<kFull>(state, shared.y[i % 2], shared.w[i % 2], block.values);
    };
    if (block.values >= kTile) {
      multiply_values(std::true_type{});
    } else {
      multiply_values(std::false_type{});
    }
    const std::int64_t token = own.token(i, kTile);
    const auto factor = [&](int r) {
      return scale == nullptr || token + r >= tokens ? 1.0F : scale[first + token + r];
    };
    __syncwarp();  // results replace rows of x that only this warp reads
    warp_tile.store(tile, result, factor(warp_tile.row), factor(warp_tile.row + 8));
    __syncwarp();
    warp_tile.write(tile, out + values, token, tokens, dims.values, block.values);
  }
}

std::int64_t num_ctas(const Segments& s, const StateDims& dims) {
  return s.batch_heads * s.count() * small_state_blocks(dims);
}

template <typename T>
int launch_states(const void* y, const void* w, float* states, const Segments& s,
                  const StateDims& dims, void* stream) {
  return launch_with_shared<StatesShared<T>>(segment_states<T>, num_ctas(s, dims), kThreads, stream,
                                             static_cast<const T*>(y), static_cast<const T*>(w),
                                             states, s, dims, s.count(), small_state_blocks(dims));
}

template <typename T>
int launch(const ChunkProductParams& p, void* stream) {
  return launch_with_shared<SmallShared<T>>(
      chunk_product_small<T>, num_ctas(p.segments, p.dims), kThreads, stream,
      static_cast<const T*>(p.x), static_cast<const T*>(p.y), static_cast<const T*>(p.w), p.scale,
      static_cast<const float*>(p.states), static_cast<T*>(p.out), p.segments, p.dims,
      p.segments.count(), small_state_blocks(p.dims));
}

}  // namespace

int launch_segment_states(const void* y, const void* w, float* states, ElementType type,
                          const Segments& segments, const StateDims& dims, void* stream) {
  return type == ElementType::kBFloat16
             ? launch_states<__nv_bfloat16>(y, w, states, segments, dims, stream)
             : launch_states<__half>(y, w, states, segments, dims, stream);
}

int launch_chunk_product_small(const ChunkProductParams& p, void* stream) {
  return p.type == ElementType::kBFloat16 ? launch<__nv_bfloat16>(p, stream)
                                          : launch<__half>(p, stream);
}

}  // namespace rotary::transformer::cuda
