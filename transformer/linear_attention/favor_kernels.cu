// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ for causal attention, bfloat16, heads of 64: random features of queries and keys, the
// denominator, and backward. With x' = x / 64^(1/4)
//
//   phi(x)_f = (exp(w_f . x' - |x'|^2 / 2 - c) + 1e-4) / sqrt(m)      f = 0 .. m - 1
//   dots_i = phi(q_i) . sum_{j <= i} phi(k_j)                 phi(k_j) = 0 for padding
//
// A CTA of four warps scans several tiles of 64 tokens; a warp has 16 tokens and 16 features at a
// time. Features are recomputed rather than saved: that costs less than memory traffic. Products
// are bfloat16, accumulators float.

#include <cuda_runtime.h>

#include <cstdint>

#include "transformer/linear_attention/favor.cuh"
#include "transformer/linear_attention/favor_kernels.h"
#include "transformer/linear_attention/launch.cuh"
#include "transformer/linear_attention/tiles.cuh"

namespace rotary::transformer::cuda {
namespace {

using namespace favor;

// ---- Features summed over each tile -------------------------------------------------------------

struct TileSumsShared {
  ProjectionTile projection;
  float sums[kTile / 16][kFavorMaxFeatures];
};

/// Sum over the 16 tokens of a warp, of feature 2 (lane / 16) + (lane / 8) % 2 of the lane's four.
__device__ float sum_of_rows(const FeatureFragment& x, const LaneIndex& at) {
  const bool upper = (at.lane & 16) != 0;
  const bool odd = (at.lane & 8) != 0;
  float sums[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] = x.at[0][e] + x.at[1][e];
  float two[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    two[e] = upper ? sums[e + 2] : sums[e];
    two[e] += __shfl_xor_sync(kAllLanes, upper ? sums[e] : sums[e + 2], 16);
  }
  float one = odd ? two[1] : two[0];
  one += __shfl_xor_sync(kAllLanes, odd ? two[0] : two[1], 8);
  return one + __shfl_xor_sync(kAllLanes, one, 4);
}

template <bool kEven>
__global__ void __launch_bounds__(kThreads)
    favor_tile_sums(const T* x, const T* from, FavorSide side, const bool* padding,
                    const float* row_max, const float* scale, float* sums, FavorShape shape) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<TileSumsShared*>(memory);
  const LaneIndex at;
  const TileRange range(shape);
  load_projection(shared.projection, shape, from);
  for (int tile = range.first; tile < range.last; ++tile) {
    const RowPair rows(shape, range.row, std::int64_t{tile} * kTile, at);
    const InputFragment heads(x, rows, at);
    const TokenFeatureMap map = make_feature_map(shape, rows, heads, side, padding, row_max, scale);
    const int blocks = shape.features / 16;
    for_feature_blocks<kEven>(
        heads, shared.projection, blocks, [&](const FeatureFragment& products, int f) {
          const int feature = 16 * f + 4 * at.t + 2 * ((at.lane / 16) % 2) + (at.lane / 8) % 2;
          const float sum = sum_of_rows(map(products), at);
          if ((at.lane & 4) == 0) shared.sums[at.warp][feature] = sum;
        });
    __syncthreads();
    float* to = sums + (range.row * shape.tiles() + tile) * shape.features;
    for (int f = static_cast<int>(threadIdx.x); f < shape.features; f += kThreads) {
      to[f] = shared.sums[0][f] + shared.sums[1][f] + shared.sums[2][f] + shared.sums[3][f];
    }
    __syncthreads();
  }
}

// ---- Forward ------------------------------------------------------------------------------------

struct ForwardShared {
  ProjectionTile projection;
  FeatureTile keys;
};

/// Stabiliser: the largest w_f . x' of each token.
template <bool kEven>
__device__ void find_row_max(float (&row_max)[2], const InputFragment& x,
                             ProjectionTile& projection, int blocks) {
  row_max[0] = row_max[1] = __int_as_float(0xff800000);  // -infinity
  for_feature_blocks<kEven>(x, projection, blocks, [&](const FeatureFragment& products, int) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) row_max[i] = fmaxf(row_max[i], products.at[i][e]);
    }
  });
  for (float& each : row_max) each = kInputScale * quad_max(each);
}

/// phi(k) of a tile, to shared memory; R phi(k) to global memory.
template <bool kEven>
__device__ void map_keys(ForwardShared& shared, const FavorForward& p, const FavorShape& shape,
                         const RowPair& rows, const FeatureMemory& features, const LaneIndex& at) {
  const InputFragment key(static_cast<const T*>(p.k), rows, at);
  const TokenFeatureMap map =
      make_feature_map(shape, rows, key, FavorSide::kKey, p.padding, nullptr, nullptr);
  for_feature_blocks<kEven>(
      key, shared.projection, shape.features / 16,
      [&](int f) { return features.load_rotation(p.cos_sin, f); },
      [&](const FeatureFragment& products, const CosSin& rotation, int f) {
        const FeatureFragment phi = map(products);
        FeatureOperand(phi).store(shared.keys, at, f);
        features.store(p.phi_k, FeatureOperand(rotation.rotate(phi, 1.0F)), f);
      });
}

/// Adds the causal part of the tile's scores to the rows' dots.
__device__ void add_causal(float (&dots)[2], const Accumulator<kTile>& scores,
                           const LaneIndex& at) {
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (8 * j + 2 * at.t + e % 2 <= at.row + 8 * (e / 2)) dots[e / 2] += scores.c[j][e];
    }
  }
}

/// Global memory read for 16 features.
struct QueryLoads {
  float4 before;  // prefix sum of key features
  CosSin rotation;
};

template <bool kEven>
__global__ void __launch_bounds__(kThreads, 3) favor_forward(FavorForward p, FavorShape shape) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardShared*>(memory);
  const LaneIndex at;
  const TileRange range(shape);
  const int blocks = shape.features / 16;
  const auto* projection = static_cast<const T*>(p.projection);
  load_projection(shared.projection, shape, projection);
  for (int tile = range.first; tile < range.last; ++tile) {
    const RowPair rows(shape, range.row, std::int64_t{tile} * kTile, at);
    const FeatureMemory features{shape, rows, 4 * at.t};
    map_keys<kEven>(shared, p, shape, rows, features, at);
    const InputFragment query(static_cast<const T*>(p.q), rows, at);
    float row_max[2];
    find_row_max<kEven>(row_max, query, shared.projection, blocks);
    TokenFeatureMap map;
    for (int i = 0; i < 2; ++i) map.set(i, shape, query, row_max[i], 1.0F);
    __syncthreads();
    const float* prefix = p.prefixes + (range.row * shape.tiles() + tile) * shape.features;
    Accumulator<kTile> scores;
    scores.clear();
    float dots[2] = {};
    for_feature_blocks<kEven>(
        query, shared.projection, blocks,
        [&](int f) {
          return QueryLoads{*reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t),
                            features.load_rotation(p.cos_sin, f)};
        },
        [&](const FeatureFragment& products, const QueryLoads& loaded, int f) {
          const FeatureFragment phi = map(products);
          const float4& before = loaded.before;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float(&x)[4] = phi.at[i];
            dots[i] += x[0] * before.x + x[1] * before.y + x[2] * before.z + x[3] * before.w;
          }
          features.store(p.phi_q, FeatureOperand(loaded.rotation.rotate(phi, 1.0F)), f);
          const FeatureOperand operand(phi);
#pragma unroll
          for (int j = 0; j < kTile / 16; ++j) {
            if (j > at.warp) break;
            std::uint32_t b[4];
            shared.keys.load_b_nk(b, 16 * f, 16 * j);
            scores.add<T>(j, operand.a, b);
          }
        });
    add_causal(dots, scores, at);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float dot = quad_sum(dots[i]);
      if (at.t == 0 && rows.inside[i]) {
        p.dots[rows.token[i]] = dot;
        p.row_max[rows.token[i]] = row_max[i];
      }
    }
    __syncthreads();
  }
}

// ---- Backward -----------------------------------------------------------------------------------

struct BackwardShared {
  ProjectionTile projection;
  FeatureTile others;
};

struct GradientLoads {
  float4 before;
  LoadedFeatures g;
  CosSin rotation;
};

/// Mask of the warp's own 16 tokens as operand A: 1 where visible, else 0.
template <bool kQuery>
__device__ void diagonal_mask(std::uint32_t (&mask)[4], const LaneIndex& at) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = at.lane / 4 + 8 * (i % 2);
    const int column = 2 * at.t + 8 * (i / 2);
    const auto visible = [row](int other) { return kQuery ? other <= row : other >= row; };
    mask[i] = pack_two<T>(visible(column) ? 1.0F : 0.0F, visible(column + 1) ? 1.0F : 0.0F);
  }
}

/// dx = 64^(-1/4) (sum_f t_f w_f - x' sum_f t_f): `out` is the first sum, `sums` the lanes' parts
/// of the second.
__device__ void write_gradient(void* to, const Accumulator<kHead>& out, const float (&sums)[2],
                               const InputFragment& own, const RowPair& rows, const LaneIndex& at) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float all = kInputScale * quad_sum(sums[i]);
    std::uint32_t words[8];
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const float2 x = own.pair(w, i);
      words[w] = pack_two<T>(kInputScale * (out.c[w][2 * i] - all * x.x),
                             kInputScale * (out.c[w][2 * i + 1] - all * x.y));
    }
    if (!rows.inside[i]) continue;
    auto* row = reinterpret_cast<uint4*>(static_cast<T*>(to) + rows.token[i] * kHead + 16 * at.t);
    row[0] = make_uint4(words[0], words[1], words[2], words[3]);
    row[1] = make_uint4(words[4], words[5], words[6], words[7]);
  }
}

/// Backward of a warp's 16 tokens (own) with the 64 of their tile on the other side. With g the
/// gradient of the own features and h that of dots:
///   queries  d_i = g_i + h_i sum_{j <= i} phi(k_j)   keys  d_j = g_j + sum_{i >= j} h_i phi(q_i)
///   t_f = d_f exp(..)_f / sqrt(m)                    dx' = sum_f t_f (w_f - x')
template <FavorSide kSide, bool kEven>
__global__ void __launch_bounds__(kThreads, 3) favor_backward(FavorBackward p, FavorShape shape) {
  constexpr bool kQuery = kSide == FavorSide::kQuery;
  constexpr FavorSide kOther = kQuery ? FavorSide::kKey : FavorSide::kQuery;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<BackwardShared*>(memory);
  const LaneIndex at;
  const TileRange range(shape);
  const int blocks = shape.features / 16;
  load_projection(shared.projection, shape, static_cast<const T*>(p.projection));
  std::uint32_t mask[4];
  diagonal_mask<kQuery>(mask, at);
  const std::uint32_t one = pack_two<T>(1.0F, 1.0F);
  const std::uint32_t ones[4] = {one, one, one, one};
  for (int tile = range.first; tile < range.last; ++tile) {
    const RowPair rows(shape, range.row, std::int64_t{tile} * kTile, at);
    {
      const InputFragment other(static_cast<const T*>(p.other), rows, at);
      const TokenFeatureMap map =
          make_feature_map(shape, rows, other, kOther, p.padding, p.row_max, p.d_dots);
      for_feature_blocks<kEven>(other, shared.projection, blocks,
                                [&](const FeatureFragment& products, int f) {
                                  FeatureOperand(map(products)).store(shared.others, at, f);
                                });
    }
    __syncthreads();
    const InputFragment own(static_cast<const T*>(p.own), rows, at);
    const FeatureMemory features{shape, rows, 4 * at.t};
    TokenFeatureMap map;
    float factor[2];  // of the running sum
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      factor[i] = kQuery ? rows.read(i, p.d_dots) : 1.0F;
      map.set(i, shape, own, kQuery ? rows.read(i, p.row_max) : 0.0F, 1.0F);
      const bool exists = kQuery ? rows.inside[i] : rows.is_key(i, shape, p.padding);
      if (!exists) map.log2_scale[i] = __int_as_float(0xff800000);  // -infinity
    }
    const float* prefix = p.prefixes + (range.row * shape.tiles() + tile) * shape.features;
    Accumulator<kHead> out;
    out.clear();
    float sums[2] = {};
    for_feature_blocks<kEven>(
        own, shared.projection, blocks,
        [&](int f) {
          return GradientLoads{*reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t),
                               features.load(p.g, f), features.load_rotation(p.cos_sin, f)};
        },
        [&](const FeatureFragment& products, const GradientLoads& loaded, int f) {
          const FeatureFragment g = loaded.rotation.rotate(loaded.g.to_float(), -1.0F);
          const float4& before = loaded.before;
          float sum[2][4] = {{before.x, before.y, before.x, before.y},
                             {before.z, before.w, before.z, before.w}};
#pragma unroll
          for (int k = 0; k < kTile / 16; ++k) {
            if (kQuery ? k > at.warp : k < at.warp) continue;
            std::uint32_t b[4];
            shared.others.load_b_kn(b, 16 * k, 16 * f);
            if (k == at.warp) {
              mma<T>(sum[0], mask, b[0], b[1]);
              mma<T>(sum[1], mask, b[2], b[3]);
            } else {
              mma<T>(sum[0], ones, b[0], b[1]);
              mma<T>(sum[1], ones, b[2], b[3]);
            }
          }
          FeatureFragment t = map.exponentials(products);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              t.at[i][e] *= fmaf(factor[i], sum[e / 2][2 * i + e % 2], g.at[i][e]);
              sums[i] += t.at[i][e];
            }
          }
          const FeatureOperand operand(t);
#pragma unroll
          for (int j = 0; j < kHead / 16; ++j) {
            std::uint32_t b[4];
            shared.projection.load_b_kn(b, 16 * f, 16 * j);
            out.add<T>(j, operand.a, b);
          }
        });
    write_gradient(p.out, out, sums, own, rows, at);
    __syncthreads();
  }
}

template <typename Shared, typename Kernel, typename... Arguments>
int launch(Kernel kernel, const FavorShape& shape, void* stream, const Arguments&... arguments) {
  const std::int64_t groups = (shape.tiles() + kTilesPerCta - 1) / kTilesPerCta;
  return launch_with_shared<Shared>(kernel, shape.batch_heads * groups, kThreads, stream,
                                    arguments..., shape);
}

bool is_even(const FavorShape& shape) { return shape.features % 32 == 0; }

}  // namespace

int launch_favor_tile_sums(const FavorTileSums& p, const FavorShape& shape, void* stream) {
  return launch<TileSumsShared>(is_even(shape) ? favor_tile_sums<true> : favor_tile_sums<false>,
                                shape, stream, static_cast<const T*>(p.x),
                                static_cast<const T*>(p.projection), p.side, p.padding, p.row_max,
                                p.scale, p.sums);
}

int launch_favor_forward(const FavorForward& p, const FavorShape& shape, void* stream) {
  return launch<ForwardShared>(is_even(shape) ? favor_forward<true> : favor_forward<false>, shape,
                               stream, p);
}

int launch_favor_backward(const FavorBackward& p, FavorSide side, const FavorShape& shape,
                          void* stream) {
  const auto kernel_of = [&](auto even, auto odd) { return is_even(shape) ? even : odd; };
  constexpr auto kQuery = FavorSide::kQuery;
  constexpr auto kKey = FavorSide::kKey;
  const auto kernel = side == kQuery
                          ? kernel_of(favor_backward<kQuery, true>, favor_backward<kQuery, false>)
                          : kernel_of(favor_backward<kKey, true>, favor_backward<kKey, false>);
  return launch<BackwardShared>(kernel, shape, stream, p);
}

}  // namespace rotary::transformer::cuda
