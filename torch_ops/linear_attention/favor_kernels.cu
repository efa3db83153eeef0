// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ of bfloat16 heads of 64, causal: the features of queries and keys, the sum of their dots,
// and the way back. With x' = x / 64^(1/4)
//
//   phi(x)_f = (exp(w_f . x' - |x'|^2 / 2 - c) + 1e-4) / sqrt(m)      f = 0 .. m - 1
//   c = phi(q), e = phi(k), 0 where there is no key          dots_i = c_i . sum_{j <= i} e_j
//
// A block of four warps goes through several tiles of 64 tokens; a warp has 16 of them, and 16
// features at a time. Features that are needed once more are computed once more: they cost less
// than memory does. Products are of bfloat16, sums of float.

#include <cuda_runtime.h>

#include <cstdint>

#include "linear_attention/favor.cuh"
#include "linear_attention/favor_cuda.h"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda {
namespace {

using namespace favor;

// ---- Sums of features over each tile ------------------------------------------------------------

struct TotalsMemory {
  Weights weights;
  float sums[kTile / 16][kFavorMostFeatures];
};

/// Over the 16 rows of a warp, of the feature 2 (lane / 16) + (lane / 8) % 2 of four.
__device__ float sum_of_rows(const Eight& x, const Lane& at) {
  const bool upper = (at.lane & 16) != 0;
  const bool odd = (at.lane & 8) != 0;
  float sums[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) sums[e] = x.at[0][e] + x.at[1][e];
  float two[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    two[e] = upper ? sums[e + 2] : sums[e];
    two[e] += __shfl_xor_sync(0xffffffffU, upper ? sums[e] : sums[e + 2], 16);
  }
  float one = odd ? two[1] : two[0];
  one += __shfl_xor_sync(0xffffffffU, odd ? two[0] : two[1], 8);
  return one + __shfl_xor_sync(0xffffffffU, one, 4);
}

template <bool kEven>
__global__ void __launch_bounds__(kThreads)
    favor_totals(const T* x, const T* from, FavorSide side, const bool* padding, const float* most,
                 const float* factors, float* totals, FavorShape shape) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<TotalsMemory*>(memory);
  const Lane at;
  const Course course(shape);
  fetch_weights(shared.weights, shape, from);
  for (int tile = course.first; tile < course.last; ++tile) {
    const Two two(shape, course.row, std::int64_t{tile} * kTile, at);
    const Heads heads(x, two, at);
    const Map map = map_of(shape, two, heads, side, padding, most, factors);
    const int blocks = shape.features / 16;
    for_features<kEven>(heads, shared.weights, blocks, [&](const Eight& products, int f) {
      const int place = 16 * f + 4 * at.t + 2 * ((at.lane / 16) % 2) + (at.lane / 8) % 2;
      const float sum = sum_of_rows(map(products), at);
      if ((at.lane & 4) == 0) shared.sums[at.warp][place] = sum;
    });
    __syncthreads();
    float* to = totals + (course.row * shape.count() + tile) * shape.features;
    for (int f = static_cast<int>(threadIdx.x); f < shape.features; f += kThreads) {
      to[f] = shared.sums[0][f] + shared.sums[1][f] + shared.sums[2][f] + shared.sums[3][f];
    }
    __syncthreads();
  }
}

// ---- Forward ------------------------------------------------------------------------------------

struct ForwardMemory {
  Weights weights;
  Features keys;
};

/// The largest w_f . x' of each row.
template <bool kEven>
__device__ void find_most(float (&most)[2], const Heads& x, Weights& weights, int blocks) {
  most[0] = most[1] = __int_as_float(0xff800000);  // -infinity
  for_features<kEven>(x, weights, blocks, [&](const Eight& products, int) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) most[i] = fmaxf(most[i], products.at[i][e]);
    }
  });
  for (float& each : most) each = kShrink * max_of_row(each);
}

/// What is asked of memory for 16 features.
struct ForQueries {
  float4 before;  // the sum of keys
  Angles angles;
};

template <bool kEven>
__global__ void __launch_bounds__(kThreads, 3) favor_forward(FavorForward p, FavorShape shape) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardMemory*>(memory);
  const Lane at;
  const Course course(shape);
  const int blocks = shape.features / 16;
  const auto* weights = static_cast<const T*>(p.weights);
  fetch_weights(shared.weights, shape, weights);
  for (int tile = course.first; tile < course.last; ++tile) {
    const Two two(shape, course.row, std::int64_t{tile} * kTile, at);
    const Memory memory_of_features{shape, two, 4 * at.t};
    {
      const Heads key(static_cast<const T*>(p.k), two, at);
      const Map map = map_of(shape, two, key, FavorSide::kKey, p.padding, nullptr, nullptr);
      for_features<kEven>(
          key, shared.weights, blocks, [&](int f) { return memory_of_features.angles(p.table, f); },
          [&](const Eight& products, const Angles& angles, int f) {
            const Eight phi = map(products);
            Packed(phi).put(shared.keys, at, f);
            memory_of_features.save(p.e, Packed(angles.turn(phi, 1.0F)), f);
          });
    }
    const Heads query(static_cast<const T*>(p.q), two, at);
    float most[2];
    find_most<kEven>(most, query, shared.weights, blocks);
    Map map;
    for (int i = 0; i < 2; ++i) map.set(i, shape, query, most[i], 1.0F);
    __syncthreads();
    const float* prefix = p.prefixes + (course.row * shape.count() + tile) * shape.features;
    Rows<kTile> scores;
    scores.clear();
    float dots[2] = {};
    for_features<kEven>(
        query, shared.weights, blocks,
        [&](int f) {
          return ForQueries{*reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t),
                            memory_of_features.angles(p.table, f)};
        },
        [&](const Eight& products, const ForQueries& asked, int f) {
          const Eight phi = map(products);
          const float4& before = asked.before;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float(&x)[4] = phi.at[i];
            dots[i] += x[0] * before.x + x[1] * before.y + x[2] * before.z + x[3] * before.w;
          }
          memory_of_features.save(p.c, Packed(asked.angles.turn(phi, 1.0F)), f);
          const Packed left(phi);
#pragma unroll
          for (int j = 0; j < kTile / 16; ++j) {
            if (j > at.warp) break;
            std::uint32_t b[4];
            shared.keys.right_transposed(b, 16 * f, 16 * j);
            scores.add<T>(j, left.a, b);
          }
        });
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (8 * j + 2 * at.t + e % 2 <= at.row + 8 * (e / 2)) dots[e / 2] += scores.c[j][e];
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float dot = sum_of_row(dots[i]);
      if (at.t == 0 && two.inside[i]) {
        p.dots[two.token[i]] = dot;
        p.most[two.token[i]] = most[i];
      }
    }
    __syncthreads();
  }
}

// ---- Backward -----------------------------------------------------------------------------------

struct BackwardMemory {
  Weights weights;
  Features others;
};

struct ForGradients {
  float4 before;
  Raw g;
  Angles angles;
};

/// Of 16 tokens, own, and the 64 of their tile, others. With g the gradient of the own features and
/// h that of dots:
///   queries  d_i = g_i + h_i sum_{j <= i} e_j        keys  d_j = g_j + sum_{i >= j} h_i c_i
///   t_f = d_f exp(..)_f / sqrt(m)                    dx' = sum_f t_f (w_f - x')
template <FavorSide kSide, bool kEven>
__global__ void __launch_bounds__(kThreads, 3) favor_backward(FavorBackward p, FavorShape shape) {
  constexpr bool kQuery = kSide == FavorSide::kQuery;
  constexpr FavorSide kOther = kQuery ? FavorSide::kKey : FavorSide::kQuery;
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<BackwardMemory*>(memory);
  const Lane at;
  const Course course(shape);
  const int blocks = shape.features / 16;
  fetch_weights(shared.weights, shape, static_cast<const T*>(p.weights));
  // Which of the 16 tokens of the warp a token sees, as a left operand: 1 or 0.
  std::uint32_t triangle[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = at.lane / 4 + 8 * (i % 2);
    const int column = 2 * at.t + 8 * (i / 2);
    const auto sees = [row](int other) { return kQuery ? other <= row : other >= row; };
    triangle[i] = pack<T>(sees(column) ? 1.0F : 0.0F, sees(column + 1) ? 1.0F : 0.0F);
  }
  const std::uint32_t one = pack<T>(1.0F, 1.0F);
  const std::uint32_t ones[4] = {one, one, one, one};
  for (int tile = course.first; tile < course.last; ++tile) {
    const Two two(shape, course.row, std::int64_t{tile} * kTile, at);
    {
      const Heads other(static_cast<const T*>(p.other), two, at);
      const Map map = map_of(shape, two, other, kOther, p.padding, p.most, p.factors);
      for_features<kEven>(other, shared.weights, blocks, [&](const Eight& products, int f) {
        Packed(map(products)).put(shared.others, at, f);
      });
    }
    __syncthreads();
    const Heads own(static_cast<const T*>(p.own), two, at);
    const Memory memory_of_features{shape, two, 4 * at.t};
    Map map;
    float factor[2];  // of the sum
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      factor[i] = kQuery ? two.read(i, p.factors) : 1.0F;
      map.set(i, shape, own, kQuery ? two.read(i, p.most) : 0.0F, 1.0F);
      const bool there = kQuery ? two.inside[i] : two.seen(i, shape, p.padding);
      if (!there) map.less[i] = __int_as_float(0xff800000);  // -infinity
    }
    const float* prefix = p.prefixes + (course.row * shape.count() + tile) * shape.features;
    Rows<kHead> out;
    out.clear();
    float sums[2] = {};
    for_features<kEven>(
        own, shared.weights, blocks,
        [&](int f) {
          return ForGradients{*reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t),
                              memory_of_features.load(p.g, f),
                              memory_of_features.angles(p.table, f)};
        },
        [&](const Eight& products, const ForGradients& asked, int f) {
          const Eight g = asked.angles.turn(asked.g.widened(), -1.0F);
          const float4& before = asked.before;
          float sum[2][4] = {{before.x, before.y, before.x, before.y},
                             {before.z, before.w, before.z, before.w}};
#pragma unroll
          for (int k = 0; k < kTile / 16; ++k) {
            if (kQuery ? k > at.warp : k < at.warp) continue;
            std::uint32_t b[4];
            shared.others.right(b, 16 * k, 16 * f);
            if (k == at.warp) {
              multiply<T>(sum[0], triangle, b[0], b[1]);
              multiply<T>(sum[1], triangle, b[2], b[3]);
            } else {
              multiply<T>(sum[0], ones, b[0], b[1]);
              multiply<T>(sum[1], ones, b[2], b[3]);
            }
          }
          Eight t = map.exponentials(products);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              t.at[i][e] *= fmaf(factor[i], sum[e / 2][2 * i + e % 2], g.at[i][e]);
              sums[i] += t.at[i][e];
            }
          }
          const Packed left(t);
#pragma unroll
          for (int j = 0; j < kHead / 16; ++j) {
            std::uint32_t b[4];
            shared.weights.right(b, 16 * f, 16 * j);
            out.add<T>(j, left.a, b);
          }
        });
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float all = kShrink * sum_of_row(sums[i]);
      std::uint32_t words[8];
#pragma unroll
      for (int w = 0; w < 8; ++w) {
        const float2 x = own.pair(w, i);
        words[w] = pack<T>(kShrink * (out.c[w][2 * i] - all * x.x),
                           kShrink * (out.c[w][2 * i + 1] - all * x.y));
      }
      if (!two.inside[i]) continue;
      auto* to =
          reinterpret_cast<uint4*>(static_cast<T*>(p.out) + two.token[i] * kHead + 16 * at.t);
      to[0] = make_uint4(words[0], words[1], words[2], words[3]);
      to[1] = make_uint4(words[4], words[5], words[6], words[7]);
    }
    __syncthreads();
  }
}

template <typename Memory, typename Kernel, typename... Arguments>
int launch(Kernel kernel, const FavorShape& shape, void* stream, const Arguments&... arguments) {
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Memory)));
  if (error != cudaSuccess) return error;
  const std::int64_t groups = (shape.count() + kTilesPerBlock - 1) / kTilesPerBlock;
  kernel<<<static_cast<unsigned>(shape.rows * groups), kThreads, sizeof(Memory),
           static_cast<cudaStream_t>(stream)>>>(arguments..., shape);
  return cudaGetLastError();
}

bool is_even(const FavorShape& shape) { return shape.features % 32 == 0; }

}  // namespace

int launch_favor_totals(const FavorTotals& p, const FavorShape& shape, void* stream) {
  return launch<TotalsMemory>(is_even(shape) ? favor_totals<true> : favor_totals<false>, shape,
                              stream, static_cast<const T*>(p.x), static_cast<const T*>(p.weights),
                              p.side, p.padding, p.most, p.factors, p.totals);
}

int launch_favor_forward(const FavorForward& p, const FavorShape& shape, void* stream) {
  return launch<ForwardMemory>(is_even(shape) ? favor_forward<true> : favor_forward<false>, shape,
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
  return launch<BackwardMemory>(kernel, shape, stream, p);
}

}  // namespace rotary::torch::cuda
