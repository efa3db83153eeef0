// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is done to tokens one by one: a thread has 16 bytes, or a warp has a row.

#include <cuda_runtime.h>

#include "linear_attention/numbers.cuh"
#include "linear_attention/sums_cuda.h"

namespace rotary::torch::cuda {
namespace {

constexpr int kThreads = 256;

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

/// Which row of [rows, width] a warp has.
__device__ std::int64_t row_of_warp() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
}

/// y = x r with r = 1 / |x|; or, with g the gradient of y, out = r (g - y (y . g)). 0 stays 0.
template <typename T, bool kBackward>
__global__ void unit_vectors(const T* x, const T* g, T* out, std::int64_t rows, int width) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* own = x + row * width;
  Wide<T> squares = 0;
  Wide<T> dot = 0;
  for (int i = lane; i < width; i += kWarp) {
    const Wide<T> value = widen(own[i]);
    squares += value * value;
    if constexpr (kBackward) dot += value * widen(g[row * width + i]);
  }
  squares = warp_sum(squares);
  const Wide<T> r = squares > 0 ? 1 / sqrt(squares) : Wide<T>(0);
  if constexpr (kBackward) dot = warp_sum(dot) * r * r;
  for (int i = lane; i < width; i += kWarp) {
    const Wide<T> value = widen(own[i]);
    if constexpr (kBackward) {
      store(out + row * width + i, r * (widen(g[row * width + i]) - value * dot));
    } else {
      store(out + row * width + i, r * value);
    }
  }
}

/// scaled_i = scale_i a_i and dots_i = a_i . b_i.
template <typename T>
__global__ void scaled_rows_and_dots(const T* a, const T* b, const Wide<T>* scale, T* scaled,
                                     Wide<T>* dots, std::int64_t rows, int width) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Wide<T> factor = scale[row];
  Wide<T> dot = 0;
  for (int i = lane; i < width; i += kWarp) {
    const Wide<T> value = widen(a[row * width + i]);
    dot += value * widen(b[row * width + i]);
    store(scaled + row * width + i, factor * value);
  }
  dot = warp_sum(dot);
  if (lane == 0) dots[row] = dot;
}

unsigned blocks_of_rows(std::int64_t rows) {
  constexpr int kRows = kThreads / kWarp;
  return static_cast<unsigned>((rows + kRows - 1) / kRows);
}

template <typename T>
int launch_elu(const void* x, void* out, std::int64_t count, void* stream) {
  constexpr std::int64_t kPerBlock = kThreads * (16 / sizeof(T));
  elu_plus_one<T><<<static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock), kThreads, 0,
                    static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                         static_cast<T*>(out), count);
  return cudaGetLastError();
}

template <typename T>
int launch_unit(const void* x, const void* g, void* out, std::int64_t rows, std::int64_t width,
                void* stream) {
  const auto run = [&](auto kernel) {
    kernel<<<blocks_of_rows(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(x), static_cast<const T*>(g), static_cast<T*>(out), rows,
        static_cast<int>(width));
  };
  g == nullptr ? run(unit_vectors<T, false>) : run(unit_vectors<T, true>);
  return cudaGetLastError();
}

template <typename T>
int launch_scaled(const void* a, const void* b, const void* scale, void* scaled, void* dots,
                  std::int64_t rows, std::int64_t width, void* stream) {
  scaled_rows_and_dots<T><<<blocks_of_rows(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const Wide<T>*>(scale),
      static_cast<T*>(scaled), static_cast<Wide<T>*>(dots), rows, static_cast<int>(width));
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

int launch_unit_vectors(const void* x, const void* g, void* out, Type type, std::int64_t rows,
                        std::int64_t width, void* stream) {
  switch (type) {
    case Type::kFloat:
      return launch_unit<float>(x, g, out, rows, width, stream);
    case Type::kDouble:
      return launch_unit<double>(x, g, out, rows, width, stream);
    case Type::kBFloat16:
      return launch_unit<__nv_bfloat16>(x, g, out, rows, width, stream);
    case Type::kFloat16:
      break;
  }
  return launch_unit<__half>(x, g, out, rows, width, stream);
}

int launch_scaled_rows_and_dots(const void* a, const void* b, const void* scale, void* scaled,
                                void* dots, Type type, std::int64_t rows, std::int64_t width,
                                void* stream) {
  switch (type) {
    case Type::kFloat:
      return launch_scaled<float>(a, b, scale, scaled, dots, rows, width, stream);
    case Type::kDouble:
      return launch_scaled<double>(a, b, scale, scaled, dots, rows, width, stream);
    case Type::kBFloat16:
      return launch_scaled<__nv_bfloat16>(a, b, scale, scaled, dots, rows, width, stream);
    case Type::kFloat16:
      break;
  }
  return launch_scaled<__half>(a, b, scale, scaled, dots, rows, width, stream);
}

}  // namespace rotary::torch::cuda
