// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// FAVOR+ of 16 tokens and 16 features at a time, as a warp has them.
//
// Elements of heads and features stand in shared memory in an order (favor.cc makes it) in which
// what one lane holds of a product is side by side in memory: of a row of features 16 f + 4 t ..
// 16 f + 4 t + 3, of a head 16 t .. 16 t + 15, with t = lane % 4.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "linear_attention/favor_cuda.h"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda::favor {

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
__device__ inline float sum_of_row(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ inline float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

__device__ inline float2 unpack(std::uint32_t both) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(both));
}

/// m x 64, rows and columns in the order of favor.cc.
using Weights = Tile<T, kFavorMostFeatures, kHead>;
using Features = Tile<T, kTile, kFavorMostFeatures>;

/// The rows of a tile that a lane has, of [rows, tokens]: two of them.
struct Two {
  std::int64_t token[2];  // of all rows
  std::int64_t place[2];  // in its row
  bool inside[2];

  __device__ Two(const FavorShape& shape, std::int64_t row, std::int64_t begin, const Lane& at) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      place[i] = begin + at.row + 8 * i;
      inside[i] = place[i] < shape.tokens;
      token[i] = row * shape.tokens + place[i];
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

/// w_f . x of 16 features and of 16 others: two products at once wait for each other's steps.
__device__ inline void project(Eight (&out)[2], const Heads& x, Weights& weights, int f, int next) {
  float c[2][2][4] = {};
#pragma unroll
  for (int k = 0; k < kHead / 16; ++k) {
    std::uint32_t b[2][4];
    weights.right_transposed(b[0], 16 * k, 16 * f);
    weights.right_transposed(b[1], 16 * k, 16 * next);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      multiply<T>(c[n][0], x.a[k], b[n][0], b[n][1]);
      multiply<T>(c[n][1], x.a[k], b[n][2], b[n][3]);
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

/// Calls use(w_f . x, ask(f), f) for every 16 features f. What is asked for, of memory, is on its
/// way two of them ahead: at the end once more, for nothing. kEven: `blocks` is.
template <bool kEven, typename Ask, typename Use>
__device__ void for_features(const Heads& x, Weights& weights, int blocks, const Ask& ask,
                             const Use& use) {
  const auto second = [blocks](int f) { return kEven || f + 1 < blocks ? f + 1 : f; };
  auto first_asked = ask(0);
  auto second_asked = ask(second(0));
#pragma unroll 1
  for (int f = 0; f < blocks; f += 2) {
    const int ahead = f + 2 < blocks ? f + 2 : f;
    const auto first_soon = ask(ahead);
    const auto second_soon = ask(second(ahead));
    Eight products[2];
    project(products, x, weights, f, second(f));
    use(products[0], first_asked, f);
    if (kEven || f + 1 < blocks) use(products[1], second_asked, f + 1);
    first_asked = first_soon;
    second_asked = second_soon;
  }
}

/// Of nothing in memory.
struct Nothing {};
template <bool kEven, typename Use>
__device__ void for_features(const Heads& x, Weights& weights, int blocks, const Use& use) {
  for_features<kEven>(
      x, weights, blocks, [](int) { return Nothing{}; },
      [&](const Eight& products, Nothing, int f) { use(products, f); });
}

/// 2^x, to about 2^-22 of it; 0 below 2^-126.
__device__ inline float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Stabilisers, and what becomes of tokens that are not there.
struct Map {
  float less[2];    // log2 of what multiplies exp(w . x'): -infinity where there is no token
  float factor[2];  // of phi
  float added[2];   // to the exponential, times the factor

  /// exp(w_f . x' - |x'|^2 / 2 - c) / sqrt(m).
  __device__ Eight exponentials(const Eight& products) const {
    Eight result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        result.at[i][e] = power_of_two(fmaf(kShrink * kLog2E, products.at[i][e], less[i]));
      }
    }
    return result;
  }
  /// phi, times the factor of each token.
  __device__ Eight operator()(const Eight& products) const {
    Eight phi = exponentials(products);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) phi.at[i][e] = fmaf(phi.at[i][e], factor[i], added[i]);
    }
    return phi;
  }
  __device__ void set(int i, const FavorShape& shape, const Heads& x, float c, float times) {
    less[i] = __log2f(shape.root) - kLog2E * (x.half_square[i] + c);
    factor[i] = times;
    added[i] = kEpsilon * shape.root * times;
  }
};

/// Of keys, whose stabiliser is 0, or of queries with `factors`.
__device__ inline Map map_of(const FavorShape& shape, const Two& two, const Heads& x,
                             FavorSide side, const bool* padding, const float* most,
                             const float* factors) {
  Map map;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (side == FavorSide::kKey) {
      map.set(i, shape, x, 0.0F, two.seen(i, shape, padding) ? 1.0F : 0.0F);
    } else {
      map.set(i, shape, x, two.read(i, most), two.read(i, factors));
    }
  }
  return map;
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
  __device__ void put(Features& tile, const Lane& at, int f) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = at.row + 8 * (i % 2);
      *reinterpret_cast<std::uint32_t*>(tile.at(row, 16 * f + 8 * (i / 2) + 2 * at.t)) = a[i];
    }
  }
};

/// Four neighbours of two rows in memory.
struct Raw {
  uint2 at[2];

  __device__ Eight widened() const {
    Eight x;
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

/// cos and sin of the two pairs that four neighbours are, of two rows.
struct Angles {
  uint2 at[2];  // half2 each

  /// x turned, with sign -1 back.
  __device__ Eight turn(const Eight& x, float sign) const {
    Eight result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const std::uint32_t both = pair == 0 ? at[i].x : at[i].y;
        const float2 c = __half22float2(reinterpret_cast<const __half2&>(both));
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

/// Features in memory, [rows, tokens, m], and what turns them.
struct Memory {
  const FavorShape& shape;
  const Two& two;
  int first;  // 4 t

  __device__ std::int64_t place(int i, int f) const {
    return two.token[i] * shape.features + 16 * f + first;
  }
  __device__ void save(void* to, const Packed& x, int f) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!two.inside[i]) continue;
      *reinterpret_cast<uint2*>(static_cast<T*>(to) + place(i, f)) = make_uint2(x.a[i], x.a[i + 2]);
    }
  }
  __device__ Raw load(const void* from, int f) const {
    Raw x{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (from == nullptr || !two.inside[i]) continue;
      x.at[i] = *reinterpret_cast<const uint2*>(static_cast<const T*>(from) + place(i, f));
    }
    return x;
  }
  /// Of table [tokens, m / 2], half2; without one, those that turn nothing.
  __device__ Angles angles(const void* table, int f) const {
    constexpr std::uint32_t kNone = 0x00003c00U;  // 1 and 0
    Angles x;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x.at[i] = make_uint2(kNone, kNone);
      if (table == nullptr || !two.inside[i]) continue;
      const std::int64_t pair = two.place[i] * (shape.features / 2) + 8 * f + first / 2;
      x.at[i] = *reinterpret_cast<const uint2*>(static_cast<const __half2*>(table) + pair);
    }
    return x;
  }
};

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

__device__ inline void fetch_weights(Weights& weights, const FavorShape& shape, const T* from) {
  weights.fetch<kThreads>({from, shape.features, kHead, kHead}, 0);
  end_of_group();
  wait_for_groups<0>();
  __syncthreads();
}

}  // namespace rotary::torch::cuda::favor
