// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ random features, 16 tokens x 16 features of a warp at a time.
//
// Rows and columns of the projection are permuted (by favor.cc) such that the mma fragment of a
// lane is contiguous in global memory: features 16 f + 4 t to 16 f + 4 t + 3 of a row, elements 16
// t to 16 t + 15 of a head, with t = lane % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "transformer/kernels/math.cuh"
#include "transformer/kernels/reduce.cuh"
#include "transformer/linear_attention/favor_kernels.h"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda::favor {

using T = __nv_bfloat16;

constexpr int kHead = 64;
constexpr int kTile = kFavorTile;
constexpr int kThreads = 2 * kTile;
constexpr int kTilesPerCta = 8;
constexpr float kInputScale = 0.353553390593273762F;  // head_dim^(-1/4)
constexpr float kEpsilon = 1e-4F;                     // as in the authors' code
constexpr float kLog2E = 1.44269504088896341F;

struct LaneIndex {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int t = lane % 4;
  int row = 16 * warp + lane / 4;  // of a token tile: and row + 8
};

__device__ inline float2 unpack(std::uint32_t both) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(both));
}

/// Projection [m, 64], permuted.
using ProjectionTile = Tile<T, kFavorMaxFeatures, kHead>;
using FeatureTile = Tile<T, kTile, kFavorMaxFeatures>;

/// The two tokens of a lane in a tile of [batch_heads, tokens].
struct RowPair {
  std::int64_t token[2];     // index in [batch_heads, tokens]
  std::int64_t position[2];  // index in its row
  bool inside[2];

  __device__ RowPair(const FavorShape& shape, std::int64_t row, std::int64_t begin,
                     const LaneIndex& at) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      position[i] = begin + at.row + 8 * i;
      inside[i] = position[i] < shape.tokens;
      token[i] = row * shape.tokens + position[i];
    }
  }
  __device__ float read(int i, const float* from) const {
    return inside[i] ? from[token[i]] : 0.0F;
  }
  /// Whether the token is a key: neither beyond the end nor padding.
  __device__ bool is_key(int i, const FavorShape& shape, const bool* padding) const {
    if (!inside[i] || padding == nullptr) return inside[i];
    const std::int64_t row = token[i] / shape.tokens;
    return padding[row / shape.heads * shape.tokens + token[i] % shape.tokens];
  }
};

/// Inputs of 16 tokens, as operands A of mma.
struct InputFragment {
  std::uint32_t a[4][4];
  float half_square[2];  // |x'|^2 / 2

  __device__ InputFragment(const T* x, const RowPair& rows, const LaneIndex& at) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint4 part[2] = {};
      if (rows.inside[i]) {
        const auto* from = reinterpret_cast<const uint4*>(x + rows.token[i] * kHead + 16 * at.t);
        part[0] = from[0];
        part[1] = from[1];
      }
      const std::uint32_t words[8] = {part[0].x, part[0].y, part[0].z, part[0].w,
                                      part[1].x, part[1].y, part[1].z, part[1].w};
      float square = 0.0F;
#pragma unroll
      for (int w = 0; w < 8; ++w) {
        a[w / 2][2 * (w % 2) + i] = words[w];
        const float2 pair = unpack(words[w]);
        square += pair.x * pair.x + pair.y * pair.y;
      }
      half_square[i] = 0.5F * kInputScale * kInputScale * quad_sum(square);
    }
  }
  /// Two elements, 16 t + 2 w and the next, of row i.
  __device__ float2 pair(int w, int i) const { return unpack(a[w / 2][2 * (w % 2) + i]); }
};

/// Fragment of 16 x 16 features: four adjacent ones of two tokens.
struct FeatureFragment {
  float at[2][4];
};

/// w_f . x of the feature blocks f and `next`: two independent mma chains hide each other's
/// latency.
__device__ inline void project(FeatureFragment (&out)[2], const InputFragment& x,
                               ProjectionTile& projection, int f, int next) {
  float c[2][2][4] = {};
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    std::uint32_t b[2][4];
    projection.load_b_nk(b[0], 16 * k, 16 * f);
    projection.load_b_nk(b[1], 16 * k, 16 * next);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      mma<T>(c[n][0], x.a[k], b[n][0], b[n][1]);
      mma<T>(c[n][1], x.a[k], b[n][2], b[n][3]);
    }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      out[n].at[0][e] = c[n][e / 2][e % 2];
      out[n].at[1][e] = c[n][e / 2][2 + e % 2];
    }
  }
}

/// Calls consume(w_f . x, load(f), f) for every block f of 16 features. Loads run two blocks
/// ahead; the last ones are redundant. kEven: `blocks` is even.
template <bool kEven, typename Load, typename Consume>
__device__ void for_feature_blocks(const InputFragment& x, ProjectionTile& projection, int blocks,
                                   const Load& load, const Consume& consume) {
  const auto second = [blocks](int f) { return kEven || f + 1 < blocks ? f + 1 : f; };
  auto first_loaded = load(0);
  auto second_loaded = load(second(0));
#pragma unroll 1
  for (int f = 0; f < blocks; f += 2) {
    const int next_block = f + 2 < blocks ? f + 2 : f;
    const auto first_next = load(next_block);
    const auto second_next = load(second(next_block));
    FeatureFragment products[2];
    project(products, x, projection, f, second(f));
    consume(products[0], first_loaded, f);
    if (kEven || f + 1 < blocks) consume(products[1], second_loaded, f + 1);
    first_loaded = first_next;
    second_loaded = second_next;
  }
}

/// Without loads.
struct NoLoad {};
template <bool kEven, typename Consume>
__device__ void for_feature_blocks(const InputFragment& x, ProjectionTile& projection, int blocks,
                                   const Consume& consume) {
  for_feature_blocks<kEven>(
      x, projection, blocks, [](int) { return NoLoad{}; },
      [&](const FeatureFragment& products, NoLoad, int f) { consume(products, f); });
}

/// Feature map of a lane's two tokens.
struct TokenFeatureMap {
  float log2_scale[2];  // log2 of the factor of exp(w . x'): -infinity for a missing token
  float factor[2];      // of phi
  float epsilon[2];     // times the factor

  /// exp(w_f . x' - |x'|^2 / 2 - c) / sqrt(m).
  __device__ FeatureFragment exponentials(const FeatureFragment& products) const {
    FeatureFragment result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        result.at[i][e] = exp2_approx(fmaf(kInputScale * kLog2E, products.at[i][e], log2_scale[i]));
      }
    }
    return result;
  }
  /// phi, times the factor of each token.
  __device__ FeatureFragment operator()(const FeatureFragment& products) const {
    FeatureFragment phi = exponentials(products);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) phi.at[i][e] = fmaf(phi.at[i][e], factor[i], epsilon[i]);
    }
    return phi;
  }
  __device__ void set(int i, const FavorShape& shape, const InputFragment& x, float c,
                      float times) {
    log2_scale[i] = __log2f(shape.feature_scale) - kLog2E * (x.half_square[i] + c);
    factor[i] = times;
    epsilon[i] = kEpsilon * shape.feature_scale * times;
  }
};

/// Keys have stabiliser 0; queries have theirs, and phi is multiplied by `scale`.
__device__ inline TokenFeatureMap make_feature_map(const FavorShape& shape, const RowPair& rows,
                                                   const InputFragment& x, FavorSide side,
                                                   const bool* padding, const float* row_max,
                                                   const float* scale) {
  TokenFeatureMap map;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (side == FavorSide::kKey) {
      map.set(i, shape, x, 0.0F, rows.is_key(i, shape, padding) ? 1.0F : 0.0F);
    } else {
      map.set(i, shape, x, rows.read(i, row_max), rows.read(i, scale));
    }
  }
  return map;
}

/// Features rounded to bfloat16, as operand A of mma.
struct FeatureOperand {
  std::uint32_t a[4];

  __device__ explicit FeatureOperand(const FeatureFragment& x) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i] = pack_two<T>(x.at[i][0], x.at[i][1]);
      a[i + 2] = pack_two<T>(x.at[i][2], x.at[i][3]);
    }
  }
  __device__ void store(FeatureTile& tile, const LaneIndex& at, int f) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = at.row + 8 * (i % 2);
      *reinterpret_cast<std::uint32_t*>(tile.at(row, 16 * f + 8 * (i / 2) + 2 * at.t)) = a[i];
    }
  }
};

/// A feature fragment as loaded from global memory.
struct LoadedFeatures {
  uint2 at[2];

  __device__ FeatureFragment to_float() const {
    FeatureFragment x;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 low = unpack(at[i].x);
      const float2 high = unpack(at[i].y);
      x.at[i][0] = low.x;
      x.at[i][1] = low.y;
      x.at[i][2] = high.x;
      x.at[i][3] = high.y;
    }
    return x;
  }
};

/// cos and sin of the two adjacent pairs of a fragment, for two tokens.
struct CosSin {
  uint2 at[2];  // half2 each

  /// R x; with sign -1 R^T x.
  __device__ FeatureFragment rotate(const FeatureFragment& x, float sign) const {
    FeatureFragment result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const std::uint32_t both = pair == 0 ? at[i].x : at[i].y;
        const float2 c = unpack_two<__half>(both);
        const float s = sign * c.y;
        const float a = x.at[i][2 * pair];
        const float b = x.at[i][2 * pair + 1];
        result.at[i][2 * pair] = a * c.x - b * s;
        result.at[i][2 * pair + 1] = a * s + b * c.x;
      }
    }
    return result;
  }
};

/// Features [batch_heads, tokens, m] and the cos/sin table in global memory.
struct FeatureMemory {
  const FavorShape& shape;
  const RowPair& rows;
  int first;  // 4 t

  __device__ std::int64_t offset(int i, int f) const {
    return rows.token[i] * shape.features + 16 * f + first;
  }
  __device__ void store(void* to, const FeatureOperand& x, int f) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!rows.inside[i]) continue;
      *reinterpret_cast<uint2*>(static_cast<T*>(to) + offset(i, f)) =
          make_uint2(x.a[i], x.a[i + 2]);
    }
  }
  __device__ LoadedFeatures load(const void* from, int f) const {
    LoadedFeatures x{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (from == nullptr || !rows.inside[i]) continue;
      x.at[i] = *reinterpret_cast<const uint2*>(static_cast<const T*>(from) + offset(i, f));
    }
    return x;
  }
  /// From cos_sin [tokens, m / 2], half2; the identity where it is null.
  __device__ CosSin load_rotation(const void* cos_sin, int f) const {
    constexpr std::uint32_t kIdentity = 0x00003c00U;  // cos 1, sin 0
    CosSin x;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x.at[i] = make_uint2(kIdentity, kIdentity);
      if (cos_sin == nullptr || !rows.inside[i]) continue;
      const std::int64_t pair = rows.position[i] * (shape.features / 2) + 8 * f + first / 2;
      x.at[i] = *reinterpret_cast<const uint2*>(static_cast<const __half2*>(cos_sin) + pair);
    }
    return x;
  }
};

/// Token tiles of a CTA.
struct TileRange {
  std::int64_t row;
  int first;
  int last;

  __device__ explicit TileRange(const FavorShape& shape) {
    const auto groups = (shape.tiles() + kTilesPerCta - 1) / kTilesPerCta;
    row = blockIdx.x / groups;
    first = static_cast<int>(blockIdx.x % groups) * kTilesPerCta;
    last = first + kTilesPerCta < shape.tiles() ? first + kTilesPerCta
                                                : static_cast<int>(shape.tiles());
  }
};

__device__ inline void load_projection(ProjectionTile& projection, const FavorShape& shape,
                                       const T* from) {
  projection.load_async<kThreads>({from, shape.features, kHead, kHead}, 0);
  cp_async_commit_group();
  cp_async_wait_group<0>();
  __syncthreads();
}

}  // namespace rotary::transformer::cuda::favor
