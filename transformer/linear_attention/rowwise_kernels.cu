// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Row-wise kernels: a thread has 16 bytes, or a group of lanes has a row.

#include <cuda_runtime.h>

#include <type_traits>

#include "transformer/kernels/packed.cuh"
#include "transformer/kernels/reduce.cuh"
#include "transformer/linear_attention/kernels.h"

namespace rotary::transformer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr double kMinDenominator = 1e-6;

/// Feature map elu(x) + 1, 16 bytes per thread.
template <typename T>
__global__ void elu_plus_one(const T* x, T* out, std::int64_t count) {
  constexpr int kPack = 16 / sizeof(T);
  const std::int64_t begin = kPack * (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
  if (begin >= count) return;
  const auto map = [](T element) {
    const Accum<T> value = to_accum(element);
    return from_accum<T>(value > 0 ? value + 1 : exp(value));
  };
  if (begin + kPack <= count) {
    alignas(16) T xs[kPack];
    *reinterpret_cast<uint4*>(xs) = *reinterpret_cast<const uint4*>(x + begin);
#pragma unroll
    for (int i = 0; i < kPack; ++i) xs[i] = map(xs[i]);
    *reinterpret_cast<uint4*>(out + begin) = *reinterpret_cast<const uint4*>(xs);
  } else {
    for (std::int64_t i = begin; i < count; ++i) out[i] = map(x[i]);
  }
}

/// Lane group: a power of two of lanes that share a row of [rows, width], each with packs of kPack
/// elements.
template <int kPack>
struct LaneGroup {
  int lanes;
  std::int64_t row;
  int first;  // element of this lane
  int step;

  __device__ explicit LaneGroup(int lanes_per_row) : lanes(lanes_per_row) {
    const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    row = thread / lanes;
    first = kPack * static_cast<int>(thread % lanes);
    step = kPack * lanes;
  }
  template <typename T>
  __device__ T sum(T x) const {
    return group_sum(x, lanes);
  }
};

/// L2 normalisation: y = x r with r = 1 / |x|; with g, the gradient of y: dx = r (g - y (y . g)).
/// A zero row stays 0.
template <typename T, int kPack, bool kBackward>
__global__ void unit_vectors(const T* x, const T* g, T* out, std::int64_t rows, int width,
                             int lanes) {
  const LaneGroup<kPack> group(lanes);
  const bool inside = group.row < rows;
  const std::int64_t begin = group.row * width;
  Accum<T> squares = 0;
  Accum<T> dot = 0;
  for (int i = group.first; inside && i < width; i += group.step) {
    const auto xs = Packed<T, kPack>::load(x + begin + i);
    Packed<T, kPack> gs{};
    if constexpr (kBackward) gs = Packed<T, kPack>::load(g + begin + i);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const Accum<T> value = to_accum(xs[e]);
      squares += value * value;
      if constexpr (kBackward) dot += value * to_accum(gs[e]);
    }
  }
  squares = group.sum(squares);
  const Accum<T> r = squares > 0 ? 1 / sqrt(squares) : Accum<T>(0);
  if constexpr (kBackward) dot = group.sum(dot) * r * r;
  for (int i = group.first; inside && i < width; i += group.step) {
    auto xs = Packed<T, kPack>::load(x + begin + i);
    Packed<T, kPack> gs{};
    if constexpr (kBackward) gs = Packed<T, kPack>::load(g + begin + i);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const Accum<T> value = to_accum(xs[e]);
      xs[e] = from_accum<T>(kBackward ? r * (to_accum(gs[e]) - value * dot) : r * value);
    }
    xs.store(out + begin + i);
  }
}

/// scaled_i = scale_i a_i and dots_i = a_i . b_i / scale_i.
template <typename T, int kPack>
__global__ void scaled_rows_and_dots(const T* a, const T* b, const Accum<T>* scale, T* scaled,
                                     Accum<T>* dots, std::int64_t rows, int width, int lanes) {
  const LaneGroup<kPack> group(lanes);
  const bool inside = group.row < rows;
  const std::int64_t begin = group.row * width;
  const Accum<T> scale_i = inside ? scale[group.row] : Accum<T>(0);
  Accum<T> dot = 0;
  for (int i = group.first; inside && i < width; i += group.step) {
    auto as = Packed<T, kPack>::load(a + begin + i);
    const auto bs = Packed<T, kPack>::load(b + begin + i);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const Accum<T> value = to_accum(as[e]);
      dot += value * to_accum(bs[e]);
      as[e] = from_accum<T>(scale_i * value);
    }
    as.store(scaled + begin + i);
  }
  dot = group.sum(dot);
  if (inside && group.first == 0) dots[group.row] = dot / scale_i;
}

/// Reciprocal of a denominator, bounded away from 0: see rowwise.h. `bounds` may be null.
template <typename T>
__global__ void reciprocals(const T* sums, const T* bounds, T guard, T* out, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  constexpr T kMin = static_cast<T>(kMinDenominator);
  const T sum = sums[i];
  if (bounds == nullptr) {
    out[i] = 1 / (sum < kMin ? kMin : sum);
    return;
  }
  const T bound = guard * bounds[i];
  const T bounded = bound < kMin ? kMin : bound;
  out[i] = 1 / (fabs(sum) < bounded ? (sum < 0 ? -bounded : bounded) : sum);
}

template <typename T>
__global__ void reciprocal_gradients(const T* g, const T* y, const T* sums, const T* bounds,
                                     T guard, T* d_sums, T* d_bounds, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  constexpr T kMin = static_cast<T>(kMinDenominator);
  const T sum = sums[i];
  const T t = -g[i] * y[i] * y[i];
  if (bounds == nullptr) {
    d_sums[i] = sum >= kMin ? t : T(0);
    return;
  }
  const T bound = guard * bounds[i];
  const bool inside = fabs(sum) < (bound < kMin ? kMin : bound);
  d_sums[i] = inside ? T(0) : t;
  d_bounds[i] = inside && bound >= kMin ? guard * (sum < 0 ? -t : t) : T(0);
}

/// Calls run(kPack, lanes per row), with 16-byte packs where they divide the row.
template <typename T, typename Run>
void with_lane_group(std::int64_t width, const Run& run) {
  constexpr int kWidest = 16 / sizeof(T);
  const bool whole = width % kWidest == 0;
  const std::int64_t packs = whole ? width / kWidest : width;
  int lanes = 1;
  while (lanes < packs && lanes < kWarpSize) lanes *= 2;
  if (whole) {
    run(std::integral_constant<int, kWidest>{}, lanes);
  } else {
    run(std::integral_constant<int, 1>{}, lanes);
  }
}

unsigned num_ctas(std::int64_t rows, int lanes) {
  return static_cast<unsigned>((rows * lanes + kThreads - 1) / kThreads);
}

template <typename T>
void launch_elu(const void* x, void* out, std::int64_t count, void* stream) {
  constexpr std::int64_t kPerCta = kThreads * (16 / sizeof(T));
  elu_plus_one<T><<<static_cast<unsigned>((count + kPerCta - 1) / kPerCta), kThreads, 0,
                    static_cast<cudaStream_t>(stream)>>>(static_cast<const T*>(x),
                                                         static_cast<T*>(out), count);
}

template <typename T>
void launch_unit(const void* x, const void* g, void* out, std::int64_t rows, std::int64_t width,
                 void* stream) {
  with_lane_group<T>(width, [&](auto each, int lanes) {
    constexpr int kPack = decltype(each)::value;
    const auto run = [&](auto kernel) {
      kernel<<<num_ctas(rows, lanes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const T*>(x), static_cast<const T*>(g), static_cast<T*>(out), rows,
          static_cast<int>(width), lanes);
    };
    g == nullptr ? run(unit_vectors<T, kPack, false>) : run(unit_vectors<T, kPack, true>);
  });
}

template <typename T>
void launch_scaled(const void* a, const void* b, const void* scale, void* scaled, void* dots,
                   std::int64_t rows, std::int64_t width, void* stream) {
  with_lane_group<T>(width, [&](auto each, int lanes) {
    scaled_rows_and_dots<T, decltype(each)::value>
        <<<num_ctas(rows, lanes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
            static_cast<const T*>(a), static_cast<const T*>(b), static_cast<const Accum<T>*>(scale),
            static_cast<T*>(scaled), static_cast<Accum<T>*>(dots), rows, static_cast<int>(width),
            lanes);
  });
}

unsigned num_ctas(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <typename T>
int launch_reciprocals_of(const void* sums, const void* bounds, double guard, void* out,
                          std::int64_t count, void* stream) {
  reciprocals<T><<<num_ctas(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(sums), static_cast<const T*>(bounds), static_cast<T>(guard),
      static_cast<T*>(out), count);
  return cudaGetLastError();
}

template <typename T>
int launch_gradients(const ReciprocalGradients& p, std::int64_t count, void* stream) {
  reciprocal_gradients<T><<<num_ctas(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(p.g), static_cast<const T*>(p.y), static_cast<const T*>(p.sums),
      static_cast<const T*>(p.bounds), static_cast<T>(p.guard), static_cast<T*>(p.d_sums),
      static_cast<T*>(p.d_bounds), count);
  return cudaGetLastError();
}

}  // namespace

int launch_reciprocals(const void* sums, const void* bounds, double guard, void* out,
                       ElementType type, std::int64_t count, void* stream) {
  return type == ElementType::kDouble
             ? launch_reciprocals_of<double>(sums, bounds, guard, out, count, stream)
             : launch_reciprocals_of<float>(sums, bounds, guard, out, count, stream);
}

int launch_reciprocal_gradients(const ReciprocalGradients& p, ElementType type, std::int64_t count,
                                void* stream) {
  return type == ElementType::kDouble ? launch_gradients<double>(p, count, stream)
                                      : launch_gradients<float>(p, count, stream);
}

int launch_elu_plus_one(const void* x, void* out, ElementType type, std::int64_t count,
                        void* stream) {
  return dispatch_with_double(
      type, [&](auto zero) { launch_elu<decltype(zero)>(x, out, count, stream); });
}

int launch_unit_vectors(const void* x, const void* g, void* out, ElementType type,
                        std::int64_t rows, std::int64_t width, void* stream) {
  return dispatch_with_double(
      type, [&](auto zero) { launch_unit<decltype(zero)>(x, g, out, rows, width, stream); });
}

int launch_scaled_rows_and_dots(const void* a, const void* b, const void* scale, void* scaled,
                                void* dots, ElementType type, std::int64_t rows, std::int64_t width,
                                void* stream) {
  return dispatch_with_double(type, [&](auto zero) {
    launch_scaled<decltype(zero)>(a, b, scale, scaled, dots, rows, width, stream);
  });
}

}  // namespace rotary::transformer::cuda
