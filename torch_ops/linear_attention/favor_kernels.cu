// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ of bfloat16 heads of 64, causal: the features of queries and keys, the sum of their dots,
// and the way back. With x' = x / 64^(1/4)
//
//   phi(x)_f = (exp(w_f . x' - |x'|^2 / 2 - c) + 1e-4) / sqrt(m)      f = 0 .. m - 1
//   c = phi(q), e = phi(k), 0 where there is no key          dots_i = c_i . sum_{j <= i} e_j
//
// A block of four warps goes through several tiles of 64 tokens; a warp has 16 of them, and 16
// features at a time. Features that are needed once more are computed once more: they cost less than
// memory does. Products are of bfloat16, sums of float.
//
// Elements of heads and features stand in shared memory in an order (favor.cc makes it) in which
// what one lane holds of a product is side by side in memory: of a row of features 16 f + 4 t ..
// 16 f + 4 t + 3, of a head 16 t .. 16 t + 15, with t = lane % 4.

#include <cuda_runtime.h>

#include <cstdint>

#include "linear_attention/favor_cuda.h"
#include "linear_attention/numbers.cuh"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda {
namespace {

using T = __nv_bfloat16;

constexpr int kHead = 64;
constexpr int kTile = kFavorTile;
constexpr int kThreads = 2 * kTile;
constexpr int kTilesPerBlock = 8;
constexpr float kShrink = 0.353553390593273762F;  // 64^(-1/4)
constexpr float kEpsilon = 1e-4F;                 // of the authors' code
constexpr float kLog2E = 1.44269504088896341F;

struct Lane {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int t = lane % 4;
  int row = 16 * warp + lane / 4;  // of a tile, and row + 8
};

/// Over the four lanes that share a row.
__device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

__device__ float2 unpack(std::uint32_t both) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(both));
}

/// m x 64, rows and columns in the order of favor.cc.
using Weights = Tile<T, kFavorMostFeatures, kHead>;
using Features = Tile<T, kTile, kFavorMostFeatures>;

/// The rows of a tile that a lane has, of [rows, tokens]: two of them.
struct Two {
  std::int64_t token[2];  // of all rows
  bool inside[2];

  __device__ Two(const FavorShape& shape, std::int64_t row, std::int64_t begin, const Lane& at) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t token_of_row = begin + at.row + 8 * i;
      inside[i] = token_of_row < shape.tokens;
      token[i] = row * shape.tokens + token_of_row;
    }
  }
  __device__ float read(int i, const float* from) const {
    return inside[i] ? from[token[i]] : 0.0F;
  }
  /// Whether there is a key.
  __device__ bool seen(int i, const FavorShape& shape, const bool* padding) const {
    if (!inside[i] || padding == nullptr) return inside[i];
    const std::int64_t row = token[i] / shape.tokens;
    return padding[row / shape.heads * shape.tokens + token[i] % shape.tokens];
  }
};

/// 16 tokens, as left operands of multiply().
struct Heads {
  std::uint32_t a[4][4];
  float half_square[2];  // |x'|^2 / 2

  __device__ Heads(const T* x, const Two& two, const Lane& at) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint4 part[2] = {};
      if (two.inside[i]) {
        const auto* from = reinterpret_cast<const uint4*>(x + two.token[i] * kHead + 16 * at.t);
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
      half_square[i] = 0.5F * kShrink * kShrink * sum_of_row(square);
    }
  }
  /// Two elements, 16 t + 2 w and the next, of row i.
  __device__ float2 pair(int w, int i) const { return unpack(a[w / 2][2 * (w % 2) + i]); }
};

/// Four neighbours of two rows.
struct Eight {
  float at[2][4];
};

/// w_f . x of 16 features.
__device__ Eight project(const Heads& x, Weights& weights, int f) {
  float c[2][4] = {};
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    std::uint32_t b[4];
    weights.right_transposed(b, 16 * k, 16 * f);
    multiply<T>(c[0], x.a[k], b[0], b[1]);
    multiply<T>(c[1], x.a[k], b[2], b[3]);
  }
  return {{{c[0][0], c[0][1], c[1][0], c[1][1]}, {c[0][2], c[0][3], c[1][2], c[1][3]}}};
}

/// exp(w_f . x' - |x'|^2 / 2 - c) / sqrt(m).
__device__ Eight exponentials(const Eight& products, const Heads& x, const float (&c)[2],
                              float factor) {
  Eight result;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float less = -kLog2E * (x.half_square[i] + c[i]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      result.at[i][e] = factor * exp2f(fmaf(kShrink * kLog2E, products.at[i][e], less));
    }
  }
  return result;
}

/// As left operand of multiply(): two rows, 16 features.
struct Packed {
  std::uint32_t a[4];

  __device__ explicit Packed(const Eight& x) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i] = pack<T>(x.at[i][0], x.at[i][1]);
      a[i + 2] = pack<T>(x.at[i][2], x.at[i][3]);
    }
  }
  __device__ uint2 row(int i) const { return make_uint2(a[i], a[i + 2]); }
  __device__ void put(Features& tile, const Lane& at, int f) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = at.row + 8 * (i % 2);
      *reinterpret_cast<std::uint32_t*>(tile.at(row, 16 * f + 8 * (i / 2) + 2 * at.t)) = a[i];
    }
  }
};

/// phi of 16 features of 16 tokens, times a factor of each, rounded.
struct Map {
  float c[2];       // stabilisers
  float factor[2];  // 0 where there is no token
  float root;       // 1 / sqrt(m)

  __device__ Packed operator()(const Heads& x, Weights& weights, int f) const {
    Eight phi = exponentials(project(x, weights, f), x, c, root);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) phi.at[i][e] = factor[i] * (phi.at[i][e] + kEpsilon * root);
    }
    return Packed(phi);
  }
};

/// Of keys, whose stabiliser is 0, or of queries with `factors`.
__device__ Map map_of(const FavorShape& shape, const Two& two, FavorSide side, const bool* padding,
                      const float* most, const float* factors) {
  Map map{};
  map.root = shape.root;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (side == FavorSide::kKey) {
      map.factor[i] = two.seen(i, shape, padding) ? 1.0F : 0.0F;
    } else {
      map.c[i] = two.read(i, most);
      map.factor[i] = two.read(i, factors);
    }
  }
  return map;
}

/// The tiles of a block.
struct Course {
  std::int64_t row;
  int first;
  int last;

  __device__ explicit Course(const FavorShape& shape) {
    const auto groups = (shape.count() + kTilesPerBlock - 1) / kTilesPerBlock;
    row = blockIdx.x / groups;
    first = static_cast<int>(blockIdx.x % groups) * kTilesPerBlock;
    last = first + kTilesPerBlock < shape.count() ? first + kTilesPerBlock
                                                  : static_cast<int>(shape.count());
  }
};

__device__ void fetch_weights(Weights& weights, const FavorShape& shape, const T* from) {
  weights.fetch<kThreads>({from, shape.features, kHead, kHead}, 0);
  end_of_group();
  wait_for_groups<0>();
  __syncthreads();
}

// ---- Sums of features over each tile ------------------------------------------------------------

struct TotalsMemory {
  Weights weights;
  float sums[kTile / 16][kFavorMostFeatures];
};

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
    const Map map = map_of(shape, two, side, padding, most, factors);
#pragma unroll 2
    for (int f = 0; f < shape.features / 16; ++f) {
      const Packed phi = map(heads, shared.weights, f);
      float sums[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 upper = unpack(phi.a[2 * half]);
        const float2 lower = unpack(phi.a[2 * half + 1]);
        sums[2 * half] = upper.x + lower.x;
        sums[2 * half + 1] = upper.y + lower.y;
      }
#pragma unroll
      for (float& sum : sums) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
      }
      if (at.lane < 4) {
        *reinterpret_cast<float4*>(&shared.sums[at.warp][16 * f + 4 * at.t]) =
            make_float4(sums[0], sums[1], sums[2], sums[3]);
      }
    }
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
__device__ void find_most(float (&most)[2], const Heads& x, Weights& weights, int blocks) {
  most[0] = most[1] = __int_as_float(0xff800000);  // -infinity
#pragma unroll 2
  for (int f = 0; f < blocks; ++f) {
    const Eight products = project(x, weights, f);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) most[i] = fmaxf(most[i], products.at[i][e]);
    }
  }
  for (float& each : most) each = kShrink * max_of_row(each);
}

__global__ void __launch_bounds__(kThreads) favor_forward(FavorForward p, FavorShape shape) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardMemory*>(memory);
  const Lane at;
  const Course course(shape);
  const int blocks = shape.features / 16;
  const auto* weights = static_cast<const T*>(p.weights);
  fetch_weights(shared.weights, shape, weights);
  for (int tile = course.first; tile < course.last; ++tile) {
    const Two two(shape, course.row, std::int64_t{tile} * kTile, at);
    const auto save = [&](void* to, const Packed& phi, int f) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!two.inside[i]) continue;
        T* row = static_cast<T*>(to) + two.token[i] * shape.features + 16 * f + 4 * at.t;
        *reinterpret_cast<uint2*>(row) = phi.row(i);
      }
    };
    {
      const Heads key(static_cast<const T*>(p.k), two, at);
      const Map map = map_of(shape, two, FavorSide::kKey, p.padding, nullptr, nullptr);
#pragma unroll 2
      for (int f = 0; f < blocks; ++f) {
        const Packed phi = map(key, shared.weights, f);
        phi.put(shared.keys, at, f);
        save(p.e, phi, f);
      }
    }
    const Heads query(static_cast<const T*>(p.q), two, at);
    Map map{.factor = {1.0F, 1.0F}, .root = shape.root};
    find_most(map.c, query, shared.weights, blocks);
    __syncthreads();
    const float* prefix = p.prefixes + (course.row * shape.count() + tile) * shape.features;
    Rows<kTile> scores;
    scores.clear();
    float dots[2] = {};
#pragma unroll 2
    for (int f = 0; f < blocks; ++f) {
      const Packed phi = map(query, shared.weights, f);
      save(p.c, phi, f);
      const float4 before = *reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 low = unpack(phi.a[i]);
        const float2 high = unpack(phi.a[i + 2]);
        dots[i] += low.x * before.x + low.y * before.y + high.x * before.z + high.y * before.w;
      }
#pragma unroll
      for (int j = 0; j < kTile / 16; ++j) {
        if (j > at.warp) break;
        std::uint32_t b[4];
        shared.keys.right_transposed(b, 16 * f, 16 * j);
        scores.add<T>(j, phi.a, b);
      }
    }
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
        p.most[two.token[i]] = map.c[i];
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

/// Of 16 tokens, own, and the 64 of their tile, others. With g the gradient of the own features and
/// h that of dots:
///   queries  d_i = g_i + h_i sum_{j <= i} e_j        keys  d_j = g_j + sum_{i >= j} h_i c_i
///   t_f = d_f exp(..)_f / sqrt(m)                    dx' = sum_f t_f (w_f - x')
template <FavorSide kSide>
__global__ void __launch_bounds__(kThreads) favor_backward(FavorBackward p, FavorShape shape) {
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
      const Map map = map_of(shape, two, kOther, p.padding, p.most, p.factors);
#pragma unroll 2
      for (int f = 0; f < blocks; ++f) map(other, shared.weights, f).put(shared.others, at, f);
    }
    __syncthreads();
    const Heads own(static_cast<const T*>(p.own), two, at);
    float c[2] = {};
    float factor[2] = {1.0F, 1.0F};  // of the sum
    float root[2];                   // 0 where there is no token
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (kQuery) {
        c[i] = two.read(i, p.most);
        factor[i] = two.read(i, p.factors);
      }
      const bool there = kQuery ? two.inside[i] : two.seen(i, shape, p.padding);
      root[i] = there ? 1.0F : 0.0F;
    }
    const float* prefix = p.prefixes + (course.row * shape.count() + tile) * shape.features;
    Rows<kHead> out;
    out.clear();
    float sums[2] = {};
#pragma unroll 1
    for (int f = 0; f < blocks; ++f) {
      uint2 g[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (p.g == nullptr || !two.inside[i]) continue;
        g[i] = *reinterpret_cast<const uint2*>(static_cast<const T*>(p.g) +
                                               two.token[i] * shape.features + 16 * f + 4 * at.t);
      }
      const float4 before = *reinterpret_cast<const float4*>(prefix + 16 * f + 4 * at.t);
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
      Eight t = exponentials(project(own, shared.weights, f), own, c, shape.root);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 low = unpack(g[i].x);
        const float2 high = unpack(g[i].y);
        const float gradient[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float all = gradient[e] + factor[i] * sum[e / 2][2 * i + e % 2];
          t.at[i][e] *= root[i] * all;
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
    }
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

}  // namespace

int launch_favor_totals(const FavorTotals& p, const FavorShape& shape, void* stream) {
  return launch<TotalsMemory>(favor_totals, shape, stream, static_cast<const T*>(p.x),
                              static_cast<const T*>(p.weights), p.side, p.padding, p.most,
                              p.factors, p.totals);
}

int launch_favor_forward(const FavorForward& p, const FavorShape& shape, void* stream) {
  return launch<ForwardMemory>(favor_forward, shape, stream, p);
}

int launch_favor_backward(const FavorBackward& p, FavorSide side, const FavorShape& shape,
                          void* stream) {
  return side == FavorSide::kQuery
             ? launch<BackwardMemory>(favor_backward<FavorSide::kQuery>, shape, stream, p)
             : launch<BackwardMemory>(favor_backward<FavorSide::kKey>, shape, stream, p);
}

}  // namespace rotary::torch::cuda
