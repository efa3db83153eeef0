// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// linear_product on tensor cores of many features, as FAVOR+ has them, and 64 values. Their state
// has no room in registers: a block has 128 tokens, whose segment is not much longer, and computes
//
//   out = X state + sum over the tiles j of the segment up to its own: (X Y_j^T, masked) W_j
//
// in steps of 64 features. Of its eight warps two share 32 rows: each has the scores of 64 keys,
// half of X state, and adds to out; at the end both are summed. What a warp reads of shared memory
// serves 32 rows: shared memory, not tensor cores, is the limit of such products.

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
constexpr int kBands = 2;  // of 16 rows, that a warp has
constexpr int kSteps = kPart / 16;
constexpr int kAhead = 2;  // steps that are on their way while one is worked on

template <typename T>
struct Step {
  Tile<T, kTokens, kPart> x;
  Tile<T, kTokens, kPart> y;  // or values
  Tile<T, kPart, kPart> state;
};

template <typename T>
union WideMemory {
  Step<T> steps[kAhead + 1];
  float sums[kTokens][kPart + 8];
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
  int lane = static_cast<int>(threadIdx.x) % 32;
  int band = kBands * (static_cast<int>(threadIdx.x) / 32 % 4);  // the first of 16 rows
  int half = static_cast<int>(threadIdx.x) / 128;                // of the keys: 64 of them
  int column = 2 * (lane % 4);                                   // of every eight: and the next
  Rows<kPart> scores[kBands];
  Rows<kPart> out[kBands];

  __device__ int row(int m) const { return 16 * (band + m) + lane / 4; }  // and row + 8

  /// Whether some row of this warp sees one of its keys from 16 j to 16 j + 15. kOwn: the keys are
  /// those of the block's own tokens, else all of them are seen.
  template <bool kOwn>
  __device__ bool sees(int j, bool reverse) const {
    const int keys = kSteps * half + j;
    return !kOwn || (reverse ? keys >= band : keys <= band + kBands - 1);
  }

  /// `width` features.
  template <bool kOwn>
  __device__ void add_features(Step<T>& step, int width, bool has_state, bool reverse) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (16 * k >= width) break;
      std::uint32_t a[kBands][4];
#pragma unroll
      for (int m = 0; m < kBands; ++m) step.x.left(a[m], 16 * (band + m), 16 * k);
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        if (!sees<kOwn>(j, reverse)) continue;
        std::uint32_t b[4];
        step.y.right_transposed(b, 16 * k, kPart * half + 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) scores[m].template add<T>(j, a[m], b);
      }
      if (!has_state || k % 2 != half) continue;
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        step.state.right(b, 16 * k, 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// Where j comes after i (before it in reverse): 0.
  __device__ void mask(bool reverse) {
#pragma unroll
    for (int m = 0; m < kBands; ++m) {
#pragma unroll
      for (int j = 0; j < kPart / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int i = row(m) + 8 * (e / 2);
          const int other = kPart * half + 8 * j + column + e % 2;
          if (reverse ? other < i : other > i) scores[m].c[j][e] = 0.0F;
        }
      }
    }
  }

  template <bool kOwn>
  __device__ void add_values(Step<T>& step, bool reverse) {
    if constexpr (kOwn) mask(reverse);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!sees<kOwn>(k, reverse)) continue;
      std::uint32_t a[kBands][4];
#pragma unroll
      for (int m = 0; m < kBands; ++m) {
        // Two neighbours in the layout of c are one operand a.
        const float(&c)[4] = scores[m].c[2 * k];
        const float(&d)[4] = scores[m].c[2 * k + 1];
        a[m][0] = pack<T>(c[0], c[1]);
        a[m][1] = pack<T>(c[2], c[3]);
        a[m][2] = pack<T>(d[0], d[1]);
        a[m][3] = pack<T>(d[2], d[3]);
      }
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        std::uint32_t b[4];
        step.y.right(b, kPart * half + 16 * k, 16 * j);
#pragma unroll
        for (int m = 0; m < kBands; ++m) out[m].template add<T>(j, a[m], b);
      }
    }
  }

  /// The sum of both halves to `to` [.., 64], of which `rows` are left.
  __device__ void write(float (&sums)[kTokens][kPart + 8], T* to, const float* scale,
                        std::int64_t rows) {
    __syncthreads();  // what was in the memory of the sums is not needed any more
    const auto for_rows = [&](const auto& use) {
#pragma unroll
      for (int m = 0; m < kBands; ++m) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < kPart / 8; ++j) {
            use(row(m) + 8 * i, 8 * j + column, out[m].c[j][2 * i], out[m].c[j][2 * i + 1]);
          }
        }
      }
    };
    if (half == 1) {
      for_rows([&](int r, int at, float x, float y) {
        *reinterpret_cast<float2*>(&sums[r][at]) = make_float2(x, y);
      });
    }
    __syncthreads();
    if (half == 1) return;
    for_rows([&](int r, int at, float x, float y) {
      if (r >= rows) return;
      const float factor = scale == nullptr ? 1.0F : scale[r];
      const float2 other = *reinterpret_cast<const float2*>(&sums[r][at]);
      *reinterpret_cast<std::uint32_t*>(to + std::int64_t{r} * kPart + at) =
          pack<T>(factor * (x + other.x), factor * (y + other.y));
    });
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
__global__ void __launch_bounds__(kThreads, 1)
    product_of_wide(WideTensors<T> t, Segments segments, std::int64_t count, int features) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<WideMemory<T>*>(memory);
  const Route route(segments, count, features);
  const int steps = route.steps();
  if (steps == 0) return;
  const std::int64_t tokens = segments.tokens;
  const std::int64_t first = route.row * tokens;
  const auto fetch = [&](int n) {
    Step<T>& step = shared.steps[n % (kAhead + 1)];
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
  };
  WideWork<T> work;
  for (auto& each : work.out) each.clear();
  for (int n = 0; n < kAhead; ++n) {
    if (n < steps) fetch(n);
    end_of_group();
  }
  for (int n = 0; n < steps; ++n) {
    wait_for_groups<kAhead - 1>();
    __syncthreads();  // this step is there, and everybody has done with the one before
    if (n + kAhead < steps) fetch(n + kAhead);
    end_of_group();
    Step<T>& step = shared.steps[n % (kAhead + 1)];
    if (route.part(n) == 0) {
      for (auto& each : work.scores) each.clear();
    }
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
  }
  const std::int64_t token = route.token(route.own);
  work.write(shared.sums, t.out + (first + token) * kPart,
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

int bytes_of_wide() { return sizeof(WideMemory<__half>); }

int launch_product_of_wide(const void* x, const void* y, const void* w, const float* scale,
                           const void* states, void* out, Type type, const Segments& segments,
                           const Widths& widths, void* stream) {
  return type == Type::kBFloat16
             ? launch<__nv_bfloat16>(x, y, w, scale, states, out, segments, widths.features, stream)
             : launch<__half>(x, y, w, scale, states, out, segments, widths.features, stream);
}

}  // namespace rotary::torch::cuda
