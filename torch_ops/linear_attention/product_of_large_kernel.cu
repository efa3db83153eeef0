// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// linear_product on tensor cores where the state is 64 x 256, 256 x 64 or 128 x 128 numbers: one
// block has a multiprocessor, and the state lies in the registers of its eight warps, in float. It
// goes through a segment in tiles of 64 tokens, the next tile on its way:
//
//   scores = X Y^T, where j comes after i: 0     out = scores W + X state     state += Y^T W
//
// For scores and out a warp has 32 rows and a quarter of the columns, of the state 32 features and
// 64 values.

#include <cuda_runtime.h>

#include <cstdint>

#include "linear_attention/states.cuh"
#include "linear_attention/sums_cuda.h"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda {
namespace {

constexpr int kTokens = 64;
constexpr int kThreads = 256;
constexpr int kBands = 2;  // of 16 rows, that a warp has
constexpr int kSteps = kTokens / 16;

template <typename T>
struct LargeTensors {
  const T* x;           // [rows, tokens, features]
  const T* y;           // the same
  const T* w;           // [rows, tokens, values]
  const float* scale;   // [rows, tokens], or null
  const float* states;  // [rows, count, features, values], or null
  T* out;               // [rows, tokens, values]
};

template <typename T, int F, int E>
struct LargeMemory {
  Tile<T, kTokens, F> x[2];
  Tile<T, kTokens, F> y[2];
  Tile<T, kTokens, E> w[2];
  Tile<T, F, E> state;
  Tile<T, kTokens, kTokens> scores;
};

/// The part of a warp.
template <typename T, int F, int E>
struct LargeWork {
  static constexpr int kColumns = E / 4;  // of out
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = 32 * (warp % 2);             // the first of scores and out
  int quarter = warp / 2;                // of their columns
  int feature = 32 * (warp % (F / 32));  // the first of the state
  int value = 64 * (warp / (F / 32));
  int line = lane / 4;          // of every 16: and line + 8
  int column = 2 * (lane % 4);  // of every eight: and column + 1
  Rows<64> state[kBands];
  Rows<kColumns> out[kBands];

  /// Whether some of the rows sees one of the keys from 16 k on.
  __device__ bool sees(int k, bool reverse) const {
    return reverse ? 16 * k + 15 >= row : 16 * k <= row + 31;
  }

  /// Calls use(row of the state, column, two neighbours) for what this warp has of it.
  template <typename Use>
  __device__ void for_state(const Use& use) {
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float(&c)[4] = state[m].c[j];
        use(feature + 16 * m + line, value + 8 * j + column, c[0], c[1]);
        use(feature + 16 * m + line + 8, value + 8 * j + column, c[2], c[3]);
      }
    }
  }
  __device__ void load_state(const StatesBefore& before, const Widths& widths) {
    for (Rows<64>& each : state) each.clear();
    for (std::int64_t i = before.begin; i < before.end; ++i) {
      const float* from = before.states + i * before.size;
      for_state([&](int f, int e, float& first, float& second) {
        if (f >= widths.features || e >= widths.values) return;
        const float2 both = *reinterpret_cast<const float2*>(from + f * widths.values + e);
        first += both.x;
        second += both.y;
      });
    }
  }
  __device__ void put_state(Tile<T, F, E>& to) {
    for_state([&](int f, int e, float first, float second) {
      *reinterpret_cast<std::uint32_t*>(to.at(f, e)) = pack<T>(first, second);
    });
  }

  /// out = X state, and 16 columns of scores, masked, to `scores`.
  __device__ void multiply_features(Tile<T, kTokens, F>& x, Tile<T, kTokens, F>& y,
                                    Tile<T, F, E>& before, Tile<T, kTokens, kTokens>& scores,
                                    int features, bool reverse) {
    const bool sees_own = sees(quarter, reverse);
    Rows<16> s[kBands];
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
      s[m].clear();
      out[m].clear();
    }
#pragma unroll 4
    for (int k = 0; 16 * k < features; ++k) {
      std::uint32_t a[kBands][4];
      std::uint32_t b[4];
#pragma unroll
      for (int m = 0; m < kBands; ++m) x.left(a[m], row + 16 * m, 16 * k);
      if (sees_own) {
        y.right_transposed(b, 16 * k, 16 * quarter);
#pragma unroll
        for (int m = 0; m < kBands; ++m) s[m].template add<T>(0, a[m], b);
      }
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        before.right(b, 16 * k, kColumns * quarter + 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
    if (!sees_own) return;
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int own = row + 16 * m + line + 8 * i;
          const int other = 16 * quarter + 8 * j + column;
          const auto kept = [&](int key, float x) {
            return (reverse ? key < own : key > own) ? 0.0F : x;
          };
          const float(&c)[4] = s[m].c[j];
          *reinterpret_cast<std::uint32_t*>(scores.at(own, other)) =
              pack<T>(kept(other, c[2 * i]), kept(other + 1, c[2 * i + 1]));
        }
      }
    }
  }

  /// out += scores W.
  __device__ void multiply_scores(Tile<T, kTokens, kTokens>& scores, Tile<T, kTokens, E>& w,
                                  bool reverse) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!sees(k, reverse)) continue;
      std::uint32_t a[kBands][4];
#pragma unroll
      for (int m = 0; m < kBands; ++m) scores.left(a[m], row + 16 * m, 16 * k);
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        std::uint32_t b[4];
        w.right(b, 16 * k, kColumns * quarter + 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// state += Y^T W.
  __device__ void add_state(Tile<T, kTokens, F>& y, Tile<T, kTokens, E>& w) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t a[kBands][4];
#pragma unroll
      for (int m = 0; m < kBands; ++m) y.left_transposed(a[m], feature + 16 * m, 16 * k);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::uint32_t b[4];
        w.right(b, 16 * k, value + 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) state[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// To `to` [.., values], of which `rows` are left.
  __device__ void write(T* to, const float* scale, std::int64_t rows, int values) {
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int own = row + 16 * m + line + 8 * i;
        if (own >= rows) continue;
        const float factor = scale == nullptr ? 1.0F : scale[own];
        T* const at = to + std::int64_t{own} * values;
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
          const int e = kColumns * quarter + 8 * j + column;
          if (e >= values) continue;
          *reinterpret_cast<std::uint32_t*>(at + e) =
              pack<T>(factor * out[m].c[j][2 * i], factor * out[m].c[j][2 * i + 1]);
        }
      }
    }
  }
};

template <typename T, int F, int E>
__global__ void __launch_bounds__(kThreads, 1)
    product_of_large(LargeTensors<T> t, Segments segments, std::int64_t count, Widths widths) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<LargeMemory<T, F, E>*>(memory);
  const bool reverse = segments.reverse;
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = blockIdx.x / count * tokens;  // of the row
  const std::int64_t begin = blockIdx.x % count * segments.length;
  const std::int64_t end = begin + segments.length < tokens ? begin + segments.length : tokens;
  const auto tiles = static_cast<int>((end - begin + kTokens - 1) / kTokens);
  const auto token_of = [&](int i) {
    return begin + std::int64_t{reverse ? tiles - 1 - i : i} * kTokens;
  };
  const auto source = [&](const T* from, int width) {
    return Source<T>{from + first * width, tokens, width, width};
  };
  const Source<T> xs = source(t.x, widths.features);
  const Source<T> ys = source(t.y, widths.features);
  const Source<T> ws = source(t.w, widths.values);
  const auto fetch = [&](int i) {
    shared.x[i % 2].template fetch<kThreads>(xs, token_of(i));
    shared.y[i % 2].template fetch<kThreads>(ys, token_of(i));
    shared.w[i % 2].template fetch<kThreads>(ws, token_of(i));
    end_of_group();
  };
  fetch(0);
  LargeWork<T, F, E> work;
  work.load_state(StatesBefore(t.states, segments, count, blockIdx.x, widths), widths);
  for (int i = 0; i < tiles; ++i) {
    __syncthreads();  // everybody has done with the tiles and the state before
    work.put_state(shared.state);
    if (i + 1 < tiles) {
      fetch(i + 1);
      wait_for_groups<1>();
    } else {
      wait_for_groups<0>();
    }
    __syncthreads();
    work.multiply_features(shared.x[i % 2], shared.y[i % 2], shared.state, shared.scores,
                           widths.features, reverse);
    if (i + 1 < tiles) work.add_state(shared.y[i % 2], shared.w[i % 2]);
    __syncthreads();  // scores are there
    work.multiply_scores(shared.scores, shared.w[i % 2], reverse);
    const std::int64_t token = token_of(i);
    work.write(t.out + (first + token) * widths.values,
               t.scale == nullptr ? nullptr : t.scale + first + token, tokens - token,
               widths.values);
  }
}

template <typename T, int F, int E>
int launch(const LargeTensors<T>& tensors, const Segments& s, const Widths& widths, void* stream) {
  constexpr int kBytes = sizeof(LargeMemory<T, F, E>);
  const cudaError_t error = cudaFuncSetAttribute(
      product_of_large<T, F, E>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  product_of_large<T, F, E><<<static_cast<unsigned>(s.rows * s.count()), kThreads, kBytes,
                              static_cast<cudaStream_t>(stream)>>>(tensors, s, s.count(), widths);
  return cudaGetLastError();
}

template <typename T>
int launch(const void* x, const void* y, const void* w, const float* scale, const float* states,
           void* out, const Segments& s, const Widths& widths, void* stream) {
  const LargeTensors<T> tensors{.x = static_cast<const T*>(x),
                                .y = static_cast<const T*>(y),
                                .w = static_cast<const T*>(w),
                                .scale = scale,
                                .states = states,
                                .out = static_cast<T*>(out)};
  if (widths.features <= 64) return launch<T, 64, 256>(tensors, s, widths, stream);
  if (widths.values <= 64) return launch<T, 256, 64>(tensors, s, widths, stream);
  return launch<T, 128, 128>(tensors, s, widths, stream);
}

}  // namespace

int bytes_of_large(const Widths& widths) {
  if (widths.features <= 64) return sizeof(LargeMemory<__half, 64, 256>);
  if (widths.values <= 64) return sizeof(LargeMemory<__half, 256, 64>);
  return sizeof(LargeMemory<__half, 128, 128>);
}

int launch_product_of_large(const void* x, const void* y, const void* w, const float* scale,
                            const float* states, void* out, Type type, const Segments& segments,
                            const Widths& widths, void* stream) {
  return type == Type::kBFloat16
             ? launch<__nv_bfloat16>(x, y, w, scale, states, out, segments, widths, stream)
             : launch<__half>(x, y, w, scale, states, out, segments, widths, stream);
}

}  // namespace rotary::torch::cuda
