// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Running sums of vectors: one warp goes through one segment of tokens in order, its lanes hold the
// features. Loads do not depend on the sums, so many are in flight.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "linear_attention/sums_cuda.h"

namespace rotary::torch::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarpsPerBlock = 4;
constexpr int kScanThreads = 128;
constexpr int kElementwiseThreads = 256;
constexpr int kScanAhead = 8;

template <typename T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <typename T>
using Wide = typename WideOf<T>::type;

__device__ float widen(float x) { return x; }
__device__ double widen(double x) { return x; }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widen(__half x) { return __half2float(x); }

__device__ void store(float* to, float x) { *to = x; }
__device__ void store(double* to, double x) { *to = x; }
__device__ void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16(x); }
__device__ void store(__half* to, float x) { *to = __float2half(x); }

/// One thread a column of states [rows, count, size].
template <typename T>
__global__ void exclusive_scan(T* states, std::int64_t rows, std::int64_t count, std::int64_t size,
                               bool reverse) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= rows * size) return;
  T* at = states + (column / size) * count * size + column % size;
  T sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kScanAhead) {
    T ahead[kScanAhead];
#pragma unroll
    for (int i = 0; i < kScanAhead; ++i) {
      const std::int64_t c = begin + i;
      ahead[i] = c < count ? at[(reverse ? count - 1 - c : c) * size] : T(0);
    }
#pragma unroll
    for (int i = 0; i < kScanAhead; ++i) {
      const std::int64_t c = begin + i;
      if (c < count) at[(reverse ? count - 1 - c : c) * size] = sum;
      sum += ahead[i];
    }
  }
}

/// Sixteen bytes a thread.
template <typename T>
__global__ void elu_plus_one(const T* x, T* out, std::int64_t count) {
  constexpr int kEach = 16 / sizeof(T);
  const std::int64_t at = kEach * (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (at >= count) return;
  const auto map = [](T value) {
    const Wide<T> wide = widen(value);
    T result;
    store(&result, wide > 0 ? wide + 1 : exp(wide));
    return result;
  };
  if (at + kEach <= count) {
    alignas(16) T some[kEach];
    *reinterpret_cast<uint4*>(some) = *reinterpret_cast<const uint4*>(x + at);
#pragma unroll
    for (int i = 0; i < kEach; ++i) some[i] = map(some[i]);
    *reinterpret_cast<uint4*>(out + at) = *reinterpret_cast<const uint4*>(some);
  } else {
    for (std::int64_t i = at; i < count; ++i) out[i] = map(x[i]);
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

/// What a warp does with one segment of x [rows, tokens, features]. kParts times 32 features.
enum class Task { kTotals, kDot, kSum };

template <Task kTask, typename T, int kParts>
__global__ void run_along(const T* x, const T* y, const Wide<T>* weight, const Wide<T>* scale,
                          Wide<T>* prefixes, void* out, Segments segments, std::int64_t count,
                          int features) {
  const Place place = place_of_warp(segments, count);
  if (!place.inside) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Wide<T>* prefix = prefixes + place.segment * features;
  Wide<T> sum[kParts];
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int f = lane + kWarp * p;
    sum[p] = kTask != Task::kTotals && f < features ? prefix[f] : Wide<T>(0);
  }
  const T* added = kTask == Task::kDot ? y : x;
  const std::int64_t tokens = place.end - place.begin;
#pragma unroll 4
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t token =
        place.row * segments.tokens + (segments.reverse ? place.end - 1 - i : place.begin + i);
    const Wide<T> factor = weight == nullptr ? Wide<T>(1) : weight[token];
    const Wide<T> last = scale == nullptr ? Wide<T>(1) : scale[token];
    Wide<T> dot = 0;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int f = lane + kWarp * p;
      if (f >= features) continue;
      const std::int64_t at = token * features + f;
      sum[p] += factor * widen(added[at]);
      if constexpr (kTask == Task::kDot) dot += sum[p] * widen(x[at]);
      if constexpr (kTask == Task::kSum) store(static_cast<T*>(out) + at, last * sum[p]);
    }
    if constexpr (kTask == Task::kDot) {
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) {
        dot += __shfl_xor_sync(0xffffffffU, dot, step);
      }
      if (lane == 0) static_cast<Wide<T>*>(out)[token] = dot;
    }
  }
  if constexpr (kTask == Task::kTotals) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const int f = lane + kWarp * p;
      if (f < features) prefix[f] = sum[p];
    }
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

template <Task kTask, typename T, int kParts>
int launch(const Pointers& p, const Segments& s, std::int64_t features, void* stream) {
  const std::int64_t warps = s.rows * s.count();
  const std::int64_t blocks = (warps + kWarpsPerBlock - 1) / kWarpsPerBlock;
  run_along<kTask, T, kParts><<<static_cast<unsigned>(blocks), kWarp * kWarpsPerBlock, 0,
                                static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(p.x), static_cast<const T*>(p.y), static_cast<const Wide<T>*>(p.weight),
      static_cast<const Wide<T>*>(p.scale), static_cast<Wide<T>*>(p.prefixes), p.out, s, s.count(),
      static_cast<int>(features));
  return cudaGetLastError();
}

template <Task kTask, typename T>
int launch(const Pointers& p, const Segments& s, std::int64_t features, void* stream) {
  if (features <= 2 * kWarp) return launch<kTask, T, 2>(p, s, features, stream);
  if (features <= 4 * kWarp) return launch<kTask, T, 4>(p, s, features, stream);
  if (features <= 10 * kWarp) return launch<kTask, T, 10>(p, s, features, stream);
  return launch<kTask, T, kMostFeatures / kWarp>(p, s, features, stream);
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

template <typename T>
int scan(void* states, std::int64_t rows, std::int64_t count, std::int64_t size, bool reverse,
         void* stream) {
  const std::int64_t blocks = (rows * size + kScanThreads - 1) / kScanThreads;
  exclusive_scan<T>
      <<<static_cast<unsigned>(blocks), kScanThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<T*>(states), rows, count, size, reverse);
  return cudaGetLastError();
}

template <typename T>
int launch_elu(const void* x, void* out, std::int64_t count, void* stream) {
  constexpr std::int64_t kPerBlock = kElementwiseThreads * (16 / sizeof(T));
  elu_plus_one<T><<<static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock), kElementwiseThreads,
                    0, static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                            static_cast<T*>(out), count);
  return cudaGetLastError();
}

}  // namespace

int launch_elu_plus_one(const void* x, void* out, Type type, std::int64_t count, void* stream) {
  switch (type) {
    case Type::kFloat:
      return launch_elu<float>(x, out, count, stream);
    case Type::kDouble:
      return launch_elu<double>(x, out, count, stream);
    case Type::kBFloat16:
      return launch_elu<__nv_bfloat16>(x, out, count, stream);
    case Type::kFloat16:
      break;
  }
  return launch_elu<__half>(x, out, count, stream);
}

int launch_exclusive_scan(void* states, Type type, std::int64_t rows, std::int64_t count,
                          std::int64_t size, bool reverse, void* stream) {
  return type == Type::kDouble ? scan<double>(states, rows, count, size, reverse, stream)
                               : scan<float>(states, rows, count, size, reverse, stream);
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
