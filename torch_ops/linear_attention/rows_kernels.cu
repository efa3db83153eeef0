// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// What is done to tokens one by one: a thread has 16 bytes, or a few lanes have a row.

#include <cuda_runtime.h>

#include <type_traits>

#include "linear_attention/numbers.cuh"
#include "linear_attention/sums_cuda.h"

namespace rotary::torch::cuda {
namespace {

constexpr int kThreads = 256;
constexpr double kLeastDenominator = 1e-6;

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

/// Rows of [rows, width], each of a group of lanes: a power of two of them, that have kEach
/// elements at a time.
template <int kEach>
struct RowOfLanes {
  int lanes;
  std::int64_t row;
  int first;  // element
  int step;

  __device__ explicit RowOfLanes(int lanes_of_row) : lanes(lanes_of_row) {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    row = thread / lanes;
    first = kEach * static_cast<int>(thread % lanes);
    step = kEach * lanes;
  }
  template <typename T>
  __device__ T sum(T x) const {
    for (int other = lanes / 2; other > 0; other /= 2) {
      x += __shfl_xor_sync(0xffffffffU, x, other);
    }
    return x;
  }
};

/// y = x r with r = 1 / |x|; or, with g the gradient of y, out = r (g - y (y . g)). 0 stays 0.
template <typename T, int kEach, bool kBackward>
__global__ void unit_vectors(const T* x, const T* g, T* out, std::int64_t rows, int width,
                             int lanes) {
  const RowOfLanes<kEach> own(lanes);
  const bool inside = own.row < rows;
  const std::int64_t begin = own.row * width;
  Wide<T> squares = 0;
  Wide<T> dot = 0;
  for (int i = own.first; inside && i < width; i += own.step) {
    const auto values = load_pack<kEach>(x + begin + i);
    Pack<T, kEach> back{};
    if constexpr (kBackward) back = load_pack<kEach>(g + begin + i);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const Wide<T> value = widen(values.at[e]);
      squares += value * value;
      if constexpr (kBackward) dot += value * widen(back.at[e]);
    }
  }
  squares = own.sum(squares);
  const Wide<T> r = squares > 0 ? 1 / sqrt(squares) : Wide<T>(0);
  if constexpr (kBackward) dot = own.sum(dot) * r * r;
  for (int i = own.first; inside && i < width; i += own.step) {
    auto values = load_pack<kEach>(x + begin + i);
    Pack<T, kEach> back{};
    if constexpr (kBackward) back = load_pack<kEach>(g + begin + i);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const Wide<T> value = widen(values.at[e]);
      store(&values.at[e], kBackward ? r * (widen(back.at[e]) - value * dot) : r * value);
    }
    store_pack(out + begin + i, values);
  }
}

/// scaled_i = scale_i a_i and dots_i = a_i . b_i / scale_i.
template <typename T, int kEach>
__global__ void scaled_rows_and_dots(const T* a, const T* b, const Wide<T>* scale, T* scaled,
                                     Wide<T>* dots, std::int64_t rows, int width, int lanes) {
  const RowOfLanes<kEach> own(lanes);
  const bool inside = own.row < rows;
  const std::int64_t begin = own.row * width;
  const Wide<T> factor = inside ? scale[own.row] : Wide<T>(0);
  Wide<T> dot = 0;
  for (int i = own.first; inside && i < width; i += own.step) {
    auto values = load_pack<kEach>(a + begin + i);
    const auto others = load_pack<kEach>(b + begin + i);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const Wide<T> value = widen(values.at[e]);
      dot += value * widen(others.at[e]);
      store(&values.at[e], factor * value);
    }
    store_pack(scaled + begin + i, values);
  }
  dot = own.sum(dot);
  if (inside && own.first == 0) dots[own.row] = dot / factor;
}

/// 1 / sum, kept from 0: see rows.h. `bounds` may be null.
template <typename T>
__global__ void reciprocals(const T* sums, const T* bounds, T guard, T* out, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  constexpr T kLeast = static_cast<T>(kLeastDenominator);
  const T sum = sums[i];
  if (bounds == nullptr) {
    out[i] = 1 / (sum < kLeast ? kLeast : sum);
    return;
  }
  const T bound = guard * bounds[i];
  const T least = bound < kLeast ? kLeast : bound;
  out[i] = 1 / (fabs(sum) < least ? (sum < 0 ? -least : least) : sum);
}

template <typename T>
__global__ void reciprocal_gradients(const T* g, const T* y, const T* sums, const T* bounds,
                                     T guard, T* of_sums, T* of_bounds, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  constexpr T kLeast = static_cast<T>(kLeastDenominator);
  const T sum = sums[i];
  const T t = -g[i] * y[i] * y[i];
  if (bounds == nullptr) {
    of_sums[i] = sum >= kLeast ? t : T(0);
    return;
  }
  const T bound = guard * bounds[i];
  const bool inside = fabs(sum) < (bound < kLeast ? kLeast : bound);
  of_sums[i] = inside ? T(0) : t;
  of_bounds[i] = inside && bound >= kLeast ? guard * (sum < 0 ? -t : t) : T(0);
}

/// Calls run(kEach, lanes of a row): 16 bytes at a time where rows have whole ones.
template <typename T, typename Run>
void with_lanes(std::int64_t width, const Run& run) {
  constexpr int kMost = 16 / sizeof(T);
  const bool whole = width % kMost == 0;
  const std::int64_t packs = whole ? width / kMost : width;
  int lanes = 1;
  while (lanes < packs && lanes < kWarp) lanes *= 2;
  if (whole) {
    run(std::integral_constant<int, kMost>{}, lanes);
  } else {
    run(std::integral_constant<int, 1>{}, lanes);
  }
}

unsigned blocks_of_rows(std::int64_t rows, int lanes) {
  return static_cast<unsigned>((rows * lanes + kThreads - 1) / kThreads);
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
  with_lanes<T>(width, [&](auto each, int lanes) {
    constexpr int kEach = decltype(each)::value;
    const auto run = [&](auto kernel) {
      kernel<<<blocks_of_rows(rows, lanes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(x), static_cast<const T*>(g), static_cast<T*>(out), rows,
          static_cast<int>(width), lanes);
    };
    g == nullptr ? run(unit_vectors<T, kEach, false>) : run(unit_vectors<T, kEach, true>);
  });
  return cudaGetLastError();
}

template <typename T>
int launch_scaled(const void* a, const void* b, const void* scale, void* scaled, void* dots,
                  std::int64_t rows, std::int64_t width, void* stream) {
  with_lanes<T>(width, [&](auto each, int lanes) {
    scaled_rows_and_dots<T, decltype(each)::value>
        <<<blocks_of_rows(rows, lanes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const Wide<T>*>(scale),
            static_cast<T*>(scaled), static_cast<Wide<T>*>(dots), rows, static_cast<int>(width),
            lanes);
  });
  return cudaGetLastError();
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <typename T>
int launch_reciprocals(const void* sums, const void* bounds, double guard, void* out,
                       std::int64_t count, void* stream) {
  reciprocals<T><<<blocks_of(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(sums), static_cast<const T*>(bounds), static_cast<T>(guard),
      static_cast<T*>(out), count);
  return cudaGetLastError();
}

template <typename T>
int launch_gradients(const ReciprocalGradients& p, std::int64_t count, void* stream) {
  reciprocal_gradients<T><<<blocks_of(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(p.g), static_cast<const T*>(p.y), static_cast<const T*>(p.sums),
      static_cast<const T*>(p.bounds), static_cast<T>(p.guard), static_cast<T*>(p.of_sums),
      static_cast<T*>(p.of_bounds), count);
  return cudaGetLastError();
}

}  // namespace

int launch_linear_reciprocals(const void* sums, const void* bounds, double guard, void* out,
                              Type type, std::int64_t count, void* stream) {
  return type == Type::kDouble ? launch_reciprocals<double>(sums, bounds, guard, out, count, stream)
                               : launch_reciprocals<float>(sums, bounds, guard, out, count, stream);
}

int launch_reciprocal_gradients(const ReciprocalGradients& p, Type type, std::int64_t count,
                                void* stream) {
  return type == Type::kDouble ? launch_gradients<double>(p, count, stream)
                               : launch_gradients<float>(p, count, stream);
}

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
