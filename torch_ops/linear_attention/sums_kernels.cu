// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Running sums of vectors: one warp goes through one segment of tokens in order, its lanes hold the
// features.

#include <cuda_runtime.h>

#include "linear_attention/numbers.cuh"
#include "linear_attention/sums_cuda.h"

namespace rotary::torch::cuda {
namespace {

constexpr int kWarpsPerBlock = 4;
constexpr int kScanThreads = 128;
constexpr int kScanAhead = 128;  // bytes of a thread

/// One thread a column of states [rows, count, size]; `sums` may be the same memory.
template <typename T, typename Sum>
__global__ void __launch_bounds__(kScanThreads, 7)
    exclusive_scan(const T* states, Sum* sums, std::int64_t rows, std::int64_t count,
                   std::int64_t size, bool reverse) {
  constexpr int kAhead = kScanAhead / sizeof(T);
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= rows * size) return;
  const std::int64_t first = (column / size) * count * size + column % size;
  const std::int64_t start = first + (reverse ? (count - 1) * size : 0);
  const std::int64_t step = reverse ? -size : size;
  const T* from = states + start;
  Sum* to = sums + start;
  T sum = 0;
  for (std::int64_t left = count; left > 0; left -= kAhead) {
    T ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      ahead[i] = i < left ? *from : T(0);
      from += step;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i < left) store(to, sum);
      to += step;
      sum += ahead[i];
    }
  }
}

/// Where a warp's segment lies: its row, its tokens from `begin` up to `end`.
struct Place {
  std::int64_t segment;
  std::int64_t row;
  std::int64_t begin;
  std::int64_t end;
  bool inside;
};

__device__ Place place_of_warp(const Segments& s, std::int64_t count) {
  Place p{};
  p.segment = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kWarp;
  p.inside = p.segment < s.rows * count;
  p.row = p.segment / count;
  p.begin = (p.segment % count) * s.length;
  p.end = p.begin + s.length < s.tokens ? p.begin + s.length : s.tokens;
  return p;
}

/// What a warp does with one segment of x [rows, tokens, features]. A lane has kParts groups of
/// kEach features that lie side by side: kEach divides the number of features.
enum class Task { kTotals, kDot, kSum };

template <Task kTask, typename T, int kEach, int kParts>
__global__ void run_along(const T* x, const T* y, const Wide<T>* weight, const Wide<T>* scale,
                          Wide<T>* prefixes, void* out, Segments segments, std::int64_t count,
                          int features) {
  const Place place = place_of_warp(segments, count);
  if (!place.inside) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Wide<T>* prefix = prefixes + place.segment * features;
  Wide<T> sum[kParts][kEach];
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int f = kEach * (lane + kWarp * p);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      sum[p][e] = kTask != Task::kTotals && f < features ? prefix[f + e] : Wide<T>(0);
    }
  }
  const T* added = kTask == Task::kDot ? y : x;
  const auto tokens = static_cast<int>(place.end - place.begin);
  const auto token_of = [&](int i) {
    return place.row * segments.tokens + (segments.reverse ? place.end - 1 - i : place.begin + i);
  };
  // What several tokens need is asked for at once: nothing of it depends on the sums.
  constexpr int kAhead = kParts == 1 ? 8 : (kParts <= 5 ? 4 : 1);
  for (int begin = 0; begin < tokens; begin += kAhead) {
    Pack<T, kEach> some[kAhead][kParts]{};
    Pack<T, kEach> others[kTask == Task::kDot ? kAhead : 1][kParts]{};
    Wide<T> factor[kAhead];
    Wide<T> last[kAhead];
    Wide<T> dots[kAhead]{};
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const bool inside = begin + a < tokens;
      const std::int64_t token = token_of(inside ? begin + a : tokens - 1);
      factor[a] = weight == nullptr ? Wide<T>(1) : weight[token];
      if (!inside) factor[a] = 0;
      last[a] = scale == nullptr ? Wide<T>(1) : scale[token];
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int f = kEach * (lane + kWarp * p);
        if (f >= features) continue;
        some[a][p] = load_pack<kEach>(added + token * features + f);
        if constexpr (kTask == Task::kDot) {
          others[a][p] = load_pack<kEach>(x + token * features + f);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int f = kEach * (lane + kWarp * p);
#pragma unroll
        for (int e = 0; e < kEach; ++e) sum[p][e] += factor[a] * widen(some[a][p].at[e]);
        if constexpr (kTask == Task::kDot) {
#pragma unroll
          for (int e = 0; e < kEach; ++e) dots[a] += sum[p][e] * widen(others[a][p].at[e]);
        }
        if constexpr (kTask == Task::kSum) {
          Pack<T, kEach> result;
#pragma unroll
          for (int e = 0; e < kEach; ++e) store(&result.at[e], last[a] * sum[p][e]);
          if (begin + a < tokens && f < features) {
            store_pack(static_cast<T*>(out) + token_of(begin + a) * features + f, result);
          }
        }
      }
    }
    if constexpr (kTask == Task::kDot) {
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const Wide<T> dot = warp_sum(dots[a]);
        if (lane == 0 && begin + a < tokens) {
          static_cast<Wide<T>*>(out)[token_of(begin + a)] = dot;
        }
      }
    }
  }
  if constexpr (kTask == Task::kTotals) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int f = kEach * (lane + kWarp * p);
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (f < features) prefix[f + e] = sum[p][e];
      }
    }
  }
}

/// kTotals with 16 bytes a lane, where they divide rows into a power of two of packs, `lanes`: a
/// warp has several tokens at a time.
template <typename T>
__global__ void packed_totals(const T* x, const Wide<T>* weight, Wide<T>* totals, Segments segments,
                              std::int64_t count, int features, int lanes) {
  constexpr int kEach = 16 / sizeof(T);
  const Place place = place_of_warp(segments, count);
  if (!place.inside) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int f = kEach * (lane % lanes);
  const std::int64_t first = place.row * segments.tokens;
  Wide<T> sum[kEach]{};
#pragma unroll 4
  for (std::int64_t i = place.begin + lane / lanes; i < place.end; i += kWarp / lanes) {
    const auto some = load_pack<kEach>(x + (first + i) * features + f);
    const Wide<T> factor = weight == nullptr ? Wide<T>(1) : weight[first + i];
#pragma unroll
    for (int e = 0; e < kEach; ++e) sum[e] += factor * widen(some.at[e]);
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    for (int other = lanes; other < kWarp; other *= 2) {
      sum[e] += __shfl_xor_sync(0xffffffffU, sum[e], other);
    }
    if (lane < lanes) totals[place.segment * features + f + e] = sum[e];
  }
}

struct Pointers {
  const void* x = nullptr;
  const void* y = nullptr;
  const void* weight = nullptr;
  const void* scale = nullptr;
  void* prefixes = nullptr;
  void* out = nullptr;
};

unsigned blocks_of_warps(const Segments& s) {
  return static_cast<unsigned>((s.rows * s.count() + kWarpsPerBlock - 1) / kWarpsPerBlock);
}

template <Task kTask, typename T, int kEach, int kParts>
int launch(const Pointers& p, const Segments& s, std::int64_t features, void* stream) {
  run_along<kTask, T, kEach, kParts>
      <<<blocks_of_warps(s), kWarp * kWarpsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(p.x), static_cast<const T*>(p.y),
          static_cast<const Wide<T>*>(p.weight), static_cast<const Wide<T>*>(p.scale),
          static_cast<Wide<T>*>(p.prefixes), p.out, s, s.count(), static_cast<int>(features));
  return cudaGetLastError();
}

template <typename T>
int launch_packed_totals(const Pointers& p, const Segments& s, std::int64_t features, int lanes,
                         void* stream) {
  packed_totals<T>
      <<<blocks_of_warps(s), kWarp * kWarpsPerBlock, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(p.x), static_cast<const Wide<T>*>(p.weight),
          static_cast<Wide<T>*>(p.prefixes), s, s.count(), static_cast<int>(features), lanes);
  return cudaGetLastError();
}

template <Task kTask, typename T>
int launch(const Pointers& p, const Segments& s, std::int64_t features, void* stream) {
  if constexpr (kTask == Task::kTotals) {
    constexpr std::int64_t kPack = 16 / sizeof(T);
    const auto lanes = static_cast<int>(features / kPack);
    if (features % kPack == 0 && lanes <= kWarp && (lanes & (lanes - 1)) == 0) {
      return launch_packed_totals<T>(p, s, features, lanes, stream);
    }
  }
  constexpr int kAll = kMostFeatures / kWarp;
  if (features % 2 != 0) return launch<kTask, T, 1, kAll>(p, s, features, stream);
  if (features <= 2 * kWarp) return launch<kTask, T, 2, 1>(p, s, features, stream);
  if (features <= 4 * kWarp) return launch<kTask, T, 2, 2>(p, s, features, stream);
  if (features <= 10 * kWarp) return launch<kTask, T, 2, 5>(p, s, features, stream);
  return launch<kTask, T, 2, kAll / 2>(p, s, features, stream);
}

template <Task kTask>
int launch(const Pointers& p, Type type, const Segments& s, std::int64_t features, void* stream) {
  switch (type) {
    case Type::kFloat:
      return launch<kTask, float>(p, s, features, stream);
    case Type::kDouble:
      return launch<kTask, double>(p, s, features, stream);
    case Type::kBFloat16:
      return launch<kTask, __nv_bfloat16>(p, s, features, stream);
    case Type::kFloat16:
      break;
  }
  return launch<kTask, __half>(p, s, features, stream);
}

template <typename T, typename Sum>
int scan(const void* states, void* sums, std::int64_t rows, std::int64_t count, std::int64_t size,
         bool reverse, void* stream) {
  const std::int64_t blocks = (rows * size + kScanThreads - 1) / kScanThreads;
  exclusive_scan<T, Sum>
      <<<static_cast<unsigned>(blocks), kScanThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(states), static_cast<Sum*>(sums), rows, count, size, reverse);
  return cudaGetLastError();
}

}  // namespace

int launch_exclusive_scan(void* states, Type type, std::int64_t rows, std::int64_t count,
                          std::int64_t size, bool reverse, void* stream) {
  return type == Type::kDouble
             ? scan<double, double>(states, states, rows, count, size, reverse, stream)
             : scan<float, float>(states, states, rows, count, size, reverse, stream);
}

int launch_narrowing_scan(const float* states, void* sums, Type type, std::int64_t rows,
                          std::int64_t count, std::int64_t size, bool reverse, void* stream) {
  return type == Type::kBFloat16
             ? scan<float, __nv_bfloat16>(states, sums, rows, count, size, reverse, stream)
             : scan<float, __half>(states, sums, rows, count, size, reverse, stream);
}

int launch_segment_sums(const void* x, const void* weight, void* sums, Type type,
                        const Segments& segments, std::int64_t features, void* stream) {
  return launch<Task::kTotals>({.x = x, .weight = weight, .prefixes = sums}, type, segments,
                               features, stream);
}

int launch_dot(const void* x, const void* y, const void* prefixes, void* out, Type type,
               const Segments& segments, std::int64_t features, void* stream) {
  return launch<Task::kDot>({.x = x, .y = y, .prefixes = const_cast<void*>(prefixes), .out = out},
                            type, segments, features, stream);
}

int launch_sum(const void* x, const void* weight, const void* scale, const void* prefixes,
               void* out, Type type, const Segments& segments, std::int64_t features,
               void* stream) {
  return launch<Task::kSum>({.x = x,
                             .weight = weight,
                             .scale = scale,
                             .prefixes = const_cast<void*>(prefixes),
                             .out = out},
                            type, segments, features, stream);
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace rotary::torch::cuda
