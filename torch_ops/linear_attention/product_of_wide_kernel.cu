// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// linear_product on tensor cores of many features, as FAVOR+ has them, and 64 values. Their state
// has no room in registers: a block has 128 tokens, whose segment is not much longer, and computes
//
//   out = X state + sum over the tiles j of the segment up to its own: (X Y_j^T, masked) W_j
//
// in steps of 64 features. Each of its eight warps has 16 rows of scores and out.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "linear_attention/sums_cuda.h"
#include "linear_attention/tiles.cuh"

namespace rotary::torch::cuda {
namespace {

constexpr int kTokens = 128;
constexpr int kPart = 64;  // features of a step; as many as there are values
constexpr int kThreads = 2 * kTokens;
constexpr int kSteps = kPart / 16;

/// Of one step; the next is on its way while one is worked on.
template <typename T>
struct Step {
  Tile<T, kTokens, kPart> x;
  Tile<T, kTokens, kPart> y;  // or values
  Tile<T, kPart, kPart> state;
};

template <typename T>
struct WideMemory {
  Step<T> steps[2];
};

/// The steps of a block: for every tile of keys its features, part by part, then its values.
struct Route {
  std::int64_t row;
  std::int64_t segment;
  std::int64_t begin;  // first token of the segment
  int own;             // tile of queries in the segment
  int first;           // of the tiles of keys
  int tiles;           // of keys
  int parts;

  __device__ Route(const Segments& s, std::int64_t count, int features) {
    const auto across = static_cast<int>(s.length / kTokens);
    segment = blockIdx.x / across;
    own = static_cast<int>(blockIdx.x % across);
    row = segment / count;
    begin = (segment % count) * s.length;
    const std::int64_t end = begin + s.length < s.tokens ? begin + s.length : s.tokens;
    const auto last = static_cast<int>((end - begin + kTokens - 1) / kTokens);
    first = s.reverse ? own : 0;
    tiles = own >= last ? 0 : (s.reverse ? last - own : own + 1);
    parts = (features + kPart - 1) / kPart;
  }
  __device__ int steps() const { return tiles * (parts + 1); }
  __device__ int tile(int step) const { return first + step / (parts + 1); }
  __device__ int part(int step) const { return step % (parts + 1); }
  __device__ bool is_values(int step) const { return part(step) == parts; }
  __device__ bool has_state(int step) const { return step < parts; }
  __device__ std::int64_t token(int tile) const { return begin + std::int64_t{tile} * kTokens; }
};

template <typename T>
struct WideWork {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int row = 16 * warp + lane / 4;  // and row + 8
  int column = 2 * (lane % 4);     // of every eight: and column + 1
  Rows<kTokens> scores;
  Rows<kPart> out;

  /// Whether some row of this warp sees one of the columns from 16 j to 16 j + 15. kOwn: the keys
  /// are those of the block's own tokens, else all of them are seen.
  template <bool kOwn>
  __device__ bool sees(int j, bool reverse) const {
    return !kOwn || (reverse ? j >= warp : j <= warp);
  }

  /// `width` features.
  template <bool kOwn>
  __device__ void add_features(Step<T>& step, int width, bool has_state, bool reverse) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (16 * k >= width) break;
      std::uint32_t a[4];
      step.x.left(a, 16 * warp, 16 * k);
#pragma unroll
      for (int j = 0; j < kTokens / 16; ++j) {
        if (!sees<kOwn>(j, reverse)) continue;
        std::uint32_t b[4];
        step.y.right_transposed(b, 16 * k, 16 * j);
        scores.template add<T>(j, a, b);
      }
      if (!has_state) continue;
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        step.state.right(b, 16 * k, 16 * j);
        out.template add<T>(j, a, b);
      }
    }
  }

  /// Where j comes after i (before it in reverse): 0.
  __device__ void mask(bool reverse) {
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = row + 8 * (e / 2);
        const int other = 8 * j + column + e % 2;
        if (reverse ? other < i : other > i) scores.c[j][e] = 0.0F;
      }
    }
  }

  template <bool kOwn>
  __device__ void add_values(Step<T>& step, bool reverse) {
    if constexpr (kOwn) mask(reverse);
#pragma unroll
    for (int k = 0; k < kTokens / 16; ++k) {
      if (!sees<kOwn>(k, reverse)) continue;
      // Two neighbours in the layout of c are one operand a.
      const float(&c)[4] = scores.c[2 * k];
      const float(&d)[4] = scores.c[2 * k + 1];
      const std::uint32_t a[4] = {pack<T>(c[0], c[1]), pack<T>(c[2], c[3]), pack<T>(d[0], d[1]),
                                  pack<T>(d[2], d[3])};
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        step.y.right(b, 16 * k, 16 * j);
        out.template add<T>(j, a, b);
      }
    }
  }

  /// The warp's rows, through `tile`, to `to` [.., 64], of which `rows` are left.
  __device__ void write(Tile<T, kTokens, kPart>& tile, T* to, const float* scale,
                        std::int64_t rows) {
    const auto factor = [&](int r) { return scale == nullptr || r >= rows ? 1.0F : scale[r]; };
    const float upper = factor(row);
    const float lower = factor(row + 8);
#pragma unroll
    for (int j = 0; j < kPart / 8; ++j) {
      const int at = 8 * j + column;
      const float(&c)[4] = out.c[j];
      *reinterpret_cast<std::uint32_t*>(tile.at(row, at)) = pack<T>(upper * c[0], upper * c[1]);
      *reinterpret_cast<std::uint32_t*>(tile.at(row + 8, at)) = pack<T>(lower * c[2], lower * c[3]);
    }
    __syncwarp();
    constexpr int kVectors = kPart / kVector;
    for (int i = lane; i < 16 * kVectors; i += 32) {
      const int r = 16 * warp + i / kVectors;
      const int at = (i % kVectors) * kVector;
      if (r < rows) {
        *reinterpret_cast<uint4*>(to + std::int64_t{r} * kPart + at) =
            *reinterpret_cast<const uint4*>(tile.at(r, at));
      }
    }
  }
};

template <typename T>
struct WideTensors {
  const T* x;       // [rows, tokens, features]
  const T* y;       // the same
  const T* w;       // [rows, tokens, 64]
  const T* states;  // [rows, count, features, 64], or null
  const float* scale;
  T* out;
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    product_of_wide(WideTensors<T> t, Segments segments, std::int64_t count, int features) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<WideMemory<T>*>(memory);
  const Route route(segments, count, features);
  const int steps = route.steps();
  if (steps == 0) return;
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = route.row * tokens;
  const auto fetch = [&](int n) {
    Step<T>& step = shared.steps[n % 2];
    const std::int64_t keys = route.token(route.tile(n));
    if (route.is_values(n)) {
      step.y.template fetch<kThreads>({t.w + first * kPart, tokens, kPart, kPart}, keys);
    } else {
      const int at = route.part(n) * kPart;
      const std::int64_t from = first * features + at;
      step.x.template fetch<kThreads>({t.x + from, tokens, features, features - at},
                                      route.token(route.own));
      step.y.template fetch<kThreads>({t.y + from, tokens, features, features - at}, keys);
      if (t.states != nullptr && route.has_state(n)) {
        const T* state = t.states + route.segment * features * kPart;
        step.state.template fetch<kThreads>({state, features, kPart, kPart}, at);
      }
    }
    end_of_group();
  };
  WideWork<T> work;
  work.out.clear();
  fetch(0);
  for (int n = 0; n < steps; ++n) {
    if (n + 1 < steps) {
      fetch(n + 1);
      wait_for_groups<1>();
    } else {
      wait_for_groups<0>();
    }
    __syncthreads();
    Step<T>& step = shared.steps[n % 2];
    if (route.part(n) == 0) work.scores.clear();
    const auto add = [&](auto is_own) {
      constexpr bool kOwn = decltype(is_own)::value;
      if (route.is_values(n)) {
        work.template add_values<kOwn>(step, segments.reverse);
      } else {
        work.template add_features<kOwn>(step, features - route.part(n) * kPart,
                                         t.states != nullptr && route.has_state(n),
                                         segments.reverse);
      }
    };
    if (route.tile(n) == route.own) {
      add(std::true_type{});
    } else {
      add(std::false_type{});
    }
    __syncthreads();  // everybody has done with this step
  }
  const std::int64_t token = route.token(route.own);
  work.write(shared.steps[0].x, t.out + (first + token) * kPart,
             t.scale == nullptr ? nullptr : t.scale + first + token, tokens - token);
}

template <typename T>
int launch(const void* x, const void* y, const void* w, const float* scale, const void* states,
           void* out, const Segments& s, int features, void* stream) {
  constexpr int kBytes = sizeof(WideMemory<T>);
  const cudaError_t error =
      cudaFuncSetAttribute(product_of_wide<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const WideTensors<T> tensors{.x = static_cast<const T*>(x),
                               .y = static_cast<const T*>(y),
                               .w = static_cast<const T*>(w),
                               .states = static_cast<const T*>(states),
                               .scale = scale,
                               .out = static_cast<T*>(out)};
  const std::int64_t blocks = s.rows * s.count() * (s.length / kTokens);
  product_of_wide<T>
      <<<static_cast<unsigned>(blocks), kThreads, kBytes, static_cast<cudaStream_t>(stream)>>>(
          tensors, s, s.count(), features);
  return cudaGetLastError();
}

}  // namespace

int launch_product_of_wide(const void* x, const void* y, const void* w, const float* scale,
                           const void* states, void* out, Type type, const Segments& segments,
                           const Widths& widths, void* stream) {
  return type == Type::kBFloat16
             ? launch<__nv_bfloat16>(x, y, w, scale, states, out, segments, widths.features, stream)
             : launch<__half>(x, y, w, scale, states, out, segments, widths.features, stream);
}

}  // namespace rotary::torch::cuda
