// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Causal and reverse scans of vectors: one warp scans one segment of tokens, its lanes hold the
// features.

#include <cuda_runtime.h>

#include "transformer/kernels/packed.cuh"
#include "transformer/kernels/reduce.cuh"
#include "transformer/linear_attention/kernels.h"

namespace rotary::transformer::cuda {
namespace {

constexpr int kWarpsPerCta = 4;
constexpr int kScanThreads = 128;
constexpr int kPrefetchBytes = 128;  // loaded ahead by each thread

/// Exclusive scan of states [batch_heads, count, size] along count, one thread per column; `sums`
/// may be the same memory.
template <typename T, typename Sum>
__global__ void __launch_bounds__(kScanThreads, 7)
    exclusive_scan(const T* states, Sum* sums, std::int64_t batch_heads, std::int64_t count,
                   std::int64_t size, bool reverse) {
  constexpr int kPrefetch = kPrefetchBytes / sizeof(T);
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= batch_heads * size) return;
  const std::int64_t first = (column / size) * count * size + column % size;
  const std::int64_t start = first + (reverse ? (count - 1) * size : 0);
  const std::int64_t step = reverse ? -size : size;
  const T* from = states + start;
  Sum* to = sums + start;
  T sum = 0;
  for (std::int64_t left = count; left > 0; left -= kPrefetch) {
    T loaded[kPrefetch];
#pragma unroll
    for (int i = 0; i < kPrefetch; ++i) {
      loaded[i] = i < left ? *from : T(0);
      from += step;
    }
#pragma unroll
    for (int i = 0; i < kPrefetch; ++i) {
      if (i < left) *to = from_accum<Sum>(sum);
      to += step;
      sum += loaded[i];
    }
  }
}

/// Segment of a warp: its row, and its tokens from `begin` up to `end`.
struct WarpSegment {
  std::int64_t segment;
  std::int64_t row;
  std::int64_t begin;
  std::int64_t end;
  bool inside;
};

__device__ WarpSegment segment_of_warp(const Segments& s, std::int64_t count) {
  WarpSegment p{};
  p.segment = std::int64_t{blockIdx.x} * kWarpsPerCta + threadIdx.x / kWarpSize;
  p.inside = p.segment < s.batch_heads * count;
  p.row = p.segment / count;
  p.begin = (p.segment % count) * s.length;
  p.end = p.begin + s.length < s.tokens ? p.begin + s.length : s.tokens;
  return p;
}

/// Scan of one segment of x [batch_heads, tokens, features]:
///   kSegmentSums  the sum of weight_j x_j over the segment
///   kDot          x_i . (prefix + running sum of y_j)
///   kSum          scale_i (prefix + running sum of weight_j x_j)
/// A lane has kParts packs of kPack adjacent features: kPack divides the number of features.
enum class Scan { kSegmentSums, kDot, kSum };

template <Scan kScan, typename T, int kPack, int kParts>
__global__ void scan_segment(const T* x, const T* y, const Accum<T>* weight, const Accum<T>* scale,
                             Accum<T>* prefixes, void* out, Segments segments, std::int64_t count,
                             int features) {
  const WarpSegment own = segment_of_warp(segments, count);
  if (!own.inside) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  Accum<T>* prefix = prefixes + own.segment * features;
  Accum<T> sum[kParts][kPack];
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int f = kPack * (lane + kWarpSize * p);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      sum[p][e] = kScan != Scan::kSegmentSums && f < features ? prefix[f + e] : Accum<T>(0);
    }
  }
  const T* const summand = kScan == Scan::kDot ? y : x;
  const auto tokens = static_cast<int>(own.end - own.begin);
  const auto token_of = [&](int i) {
    return own.row * segments.tokens + (segments.reverse ? own.end - 1 - i : own.begin + i);
  };
  // Loads of several tokens are issued together: none depends on the running sum.
  constexpr int kPrefetch = kParts == 1 ? 8 : (kParts <= 5 ? 4 : 1);
  for (int begin = 0; begin < tokens; begin += kPrefetch) {
    Packed<T, kPack> added[kPrefetch][kParts]{};
    Packed<T, kPack> queries[kScan == Scan::kDot ? kPrefetch : 1][kParts]{};
    Accum<T> factor[kPrefetch];
    Accum<T> out_scale[kPrefetch];
    Accum<T> dots[kPrefetch]{};
#pragma unroll
    for (int a = 0; a < kPrefetch; ++a) {
      const bool inside = begin + a < tokens;
      const std::int64_t token = token_of(inside ? begin + a : tokens - 1);
      factor[a] = weight == nullptr ? Accum<T>(1) : weight[token];
      if (!inside) factor[a] = 0;
      out_scale[a] = scale == nullptr ? Accum<T>(1) : scale[token];
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int f = kPack * (lane + kWarpSize * p);
        if (f >= features) continue;
        added[a][p] = Packed<T, kPack>::load(summand + token * features + f);
        if constexpr (kScan == Scan::kDot) {
          queries[a][p] = Packed<T, kPack>::load(x + token * features + f);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kPrefetch; ++a) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int f = kPack * (lane + kWarpSize * p);
#pragma unroll
        for (int e = 0; e < kPack; ++e) sum[p][e] += factor[a] * to_accum(added[a][p].data[e]);
        if constexpr (kScan == Scan::kDot) {
#pragma unroll
          for (int e = 0; e < kPack; ++e) dots[a] += sum[p][e] * to_accum(queries[a][p][e]);
        }
        if constexpr (kScan == Scan::kSum) {
          Packed<T, kPack> result;
#pragma unroll
          for (int e = 0; e < kPack; ++e) result[e] = from_accum<T>(out_scale[a] * sum[p][e]);
          if (begin + a < tokens && f < features) {
            result.store(static_cast<T*>(out) + token_of(begin + a) * features + f);
          }
        }
      }
    }
    if constexpr (kScan == Scan::kDot) {
#pragma unroll
      for (int a = 0; a < kPrefetch; ++a) {
        const Accum<T> dot = warp_sum(dots[a]);
        if (lane == 0 && begin + a < tokens) {
          static_cast<Accum<T>*>(out)[token_of(begin + a)] = dot;
        }
      }
    }
  }
  if constexpr (kScan == Scan::kSegmentSums) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int f = kPack * (lane + kWarpSize * p);
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        if (f < features) prefix[f + e] = sum[p][e];
      }
    }
  }
}

/// kSegmentSums with 16-byte loads, where a vector is a power of two of packs, `lanes`: a warp adds
/// several tokens at a time.
template <typename T>
__global__ void packed_segment_sums(const T* x, const Accum<T>* weight, Accum<T>* sums,
                                    Segments segments, std::int64_t count, int features,
                                    int lanes) {
  constexpr int kPack = 16 / sizeof(T);
  const WarpSegment own = segment_of_warp(segments, count);
  if (!own.inside) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int f = kPack * (lane % lanes);
  const std::int64_t first = own.row * segments.tokens;
  Accum<T> sum[kPack]{};
#pragma unroll 4
  for (std::int64_t i = own.begin + lane / lanes; i < own.end; i += kWarpSize / lanes) {
    const auto added = Packed<T, kPack>::load(x + (first + i) * features + f);
    const Accum<T> factor = weight == nullptr ? Accum<T>(1) : weight[first + i];
#pragma unroll
    for (int e = 0; e < kPack; ++e) sum[e] += factor * to_accum(added[e]);
  }
#pragma unroll
  for (int e = 0; e < kPack; ++e) {
    for (int offset = lanes; offset < kWarpSize; offset *= 2) {
      sum[e] += __shfl_xor_sync(kAllLanes, sum[e], offset);
    }
    if (lane < lanes) sums[own.segment * features + f + e] = sum[e];
  }
}

struct ScanTensors {
  const void* x = nullptr;
  const void* y = nullptr;
  const void* weight = nullptr;
  const void* scale = nullptr;
  void* prefixes = nullptr;
  void* out = nullptr;
};

unsigned num_ctas(const Segments& s) {
  return static_cast<unsigned>((s.batch_heads * s.count() + kWarpsPerCta - 1) / kWarpsPerCta);
}

template <Scan kScan, typename T, int kPack, int kParts>
void launch(const ScanTensors& p, const Segments& s, std::int64_t features, void* stream) {
  scan_segment<kScan, T, kPack, kParts>
      <<<num_ctas(s), kWarpSize * kWarpsPerCta, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(p.x), static_cast<const T*>(p.y),
          static_cast<const Accum<T>*>(p.weight), static_cast<const Accum<T>*>(p.scale),
          static_cast<Accum<T>*>(p.prefixes), p.out, s, s.count(), static_cast<int>(features));
}

template <typename T>
void launch_packed_segment_sums(const ScanTensors& p, const Segments& s, std::int64_t features,
                                int lanes, void* stream) {
  packed_segment_sums<T>
      <<<num_ctas(s), kWarpSize * kWarpsPerCta, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(p.x), static_cast<const Accum<T>*>(p.weight),
          static_cast<Accum<T>*>(p.prefixes), s, s.count(), static_cast<int>(features), lanes);
}

template <Scan kScan, typename T>
void launch(const ScanTensors& p, const Segments& s, std::int64_t features, void* stream) {
  if constexpr (kScan == Scan::kSegmentSums) {
    constexpr std::int64_t kWidest = 16 / sizeof(T);
    const auto lanes = static_cast<int>(features / kWidest);
    if (features % kWidest == 0 && lanes <= kWarpSize && (lanes & (lanes - 1)) == 0) {
      return launch_packed_segment_sums<T>(p, s, features, lanes, stream);
    }
  }
  constexpr int kMaxPacks = kMaxFeatures / kWarpSize;
  if (features % 2 != 0) return launch<kScan, T, 1, kMaxPacks>(p, s, features, stream);
  if (features <= 2 * kWarpSize) return launch<kScan, T, 2, 1>(p, s, features, stream);
  if (features <= 4 * kWarpSize) return launch<kScan, T, 2, 2>(p, s, features, stream);
  if (features <= 10 * kWarpSize) return launch<kScan, T, 2, 5>(p, s, features, stream);
  return launch<kScan, T, 2, kMaxPacks / 2>(p, s, features, stream);
}

template <Scan kScan>
int launch(const ScanTensors& p, ElementType type, const Segments& s, std::int64_t features,
           void* stream) {
  return dispatch_with_double(
      type, [&](auto zero) { launch<kScan, decltype(zero)>(p, s, features, stream); });
}

template <typename T, typename Sum>
int scan(const void* states, void* sums, std::int64_t batch_heads, std::int64_t count,
         std::int64_t size, bool reverse, void* stream) {
  const std::int64_t blocks = (batch_heads * size + kScanThreads - 1) / kScanThreads;
  exclusive_scan<T, Sum>
      <<<static_cast<unsigned>(blocks), kScanThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(states), static_cast<Sum*>(sums), batch_heads, count, size,
          reverse);
  return cudaGetLastError();
}

}  // namespace

int launch_exclusive_scan(void* states, ElementType type, std::int64_t batch_heads,
                          std::int64_t count, std::int64_t size, bool reverse, void* stream) {
  return type == ElementType::kDouble
             ? scan<double, double>(states, states, batch_heads, count, size, reverse, stream)
             : scan<float, float>(states, states, batch_heads, count, size, reverse, stream);
}

int launch_rounding_scan(const float* states, void* sums, ElementType type,
                         std::int64_t batch_heads, std::int64_t count, std::int64_t size,
                         bool reverse, void* stream) {
  return type == ElementType::kBFloat16
             ? scan<float, __nv_bfloat16>(states, sums, batch_heads, count, size, reverse, stream)
             : scan<float, __half>(states, sums, batch_heads, count, size, reverse, stream);
}

int launch_segment_sums(const void* x, const void* weight, void* sums, ElementType type,
                        const Segments& segments, std::int64_t features, void* stream) {
  return launch<Scan::kSegmentSums>({.x = x, .weight = weight, .prefixes = sums}, type, segments,
                                    features, stream);
}

int launch_dot_scan(const void* x, const void* y, const void* prefixes, void* out, ElementType type,
                    const Segments& segments, std::int64_t features, void* stream) {
  return launch<Scan::kDot>({.x = x, .y = y, .prefixes = const_cast<void*>(prefixes), .out = out},
                            type, segments, features, stream);
}

int launch_sum_scan(const void* x, const void* weight, const void* scale, const void* prefixes,
                    void* out, ElementType type, const Segments& segments, std::int64_t features,
                    void* stream) {
  return launch<Scan::kSum>({.x = x,
                             .weight = weight,
                             .scale = scale,
                             .prefixes = const_cast<void*>(prefixes),
                             .out = out},
                            type, segments, features, stream);
}

}  // namespace rotary::transformer::cuda
