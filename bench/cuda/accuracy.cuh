// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Results against a higher-precision reference on the host, and cos and sin against
// engine/phase.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/phase.h"
#include "harness.cuh"
#include "support/half.h"

namespace accuracy {

using harness::check;
using harness::Workload;
namespace core = rotary::internal;

inline double frequency_of(int pair, int pairs) {
  return std::pow(10000.0, -static_cast<double>(pair) / pairs);
}

/// The angle in long double (64-bit mantissa): accurate to 1e-10 at position 1e9.
inline core::CosSin<double> exact_cos_sin(std::int64_t position, int pair, int pairs) {
  const long double angle =
      static_cast<long double>(position) * static_cast<long double>(frequency_of(pair, pairs));
  return {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
}

struct Error {
  double result = 0.0;      // |result - exact| / |exact| (L2) over the sampled elements
  double rounding = 0.0;    // the same for the exact result rounded once
  double max_excess = 0.0;  // largest |result - exact| beyond half an ulp
};

/// Error of sampled rows of q, rotated from `in` to `out` (device memory) at positions start +
/// token.
inline Error error_of(const Workload& w, const char* in, const char* out,
                      ladder_kernels::Layout layout, std::int64_t start, double sign, int samples) {
  const int dim = w.head_dim;
  const int pairs = dim / 2;
  const auto row_bytes = static_cast<std::size_t>(w.q_heads) * dim * w.size;
  std::vector<char> x(row_bytes);
  std::vector<char> y(row_bytes);
  const auto element = [&w](const std::vector<char>& from, int i) {
    if (w.size == 4) return static_cast<double>(reinterpret_cast<const float*>(from.data())[i]);
    const auto bits = reinterpret_cast<const std::uint16_t*>(from.data())[i];
    return static_cast<double>(core::from_bfloat16(bits));
  };
  double difference = 0.0, rounding = 0.0, sum = 0.0, max_excess = 0.0;
  for (int i = 0; i < samples; ++i) {
    const std::int64_t row = i == 0 ? 0 : i == 1 ? w.rows() - 1 : i * (w.rows() / samples) + i;
    const auto at = static_cast<std::size_t>(row) * row_bytes;
    check(cudaMemcpy(x.data(), in + at, row_bytes, cudaMemcpyDeviceToHost), "sample");
    check(cudaMemcpy(y.data(), out + at, row_bytes, cudaMemcpyDeviceToHost), "sample");
    for (int h = 0; h < w.q_heads; ++h) {
      for (int p = 0; p < pairs; ++p) {
        const bool half = layout == ladder_kernels::Layout::kHalf;
        const int first = h * dim + (half ? p : 2 * p);
        const int second = h * dim + (half ? p + pairs : 2 * p + 1);
        const auto z = exact_cos_sin(start + row % w.tokens, p, pairs);
        const double a = element(x, first), b = element(x, second);
        const double exact[2] = {a * z.cos - b * sign * z.sin, b * z.cos + a * sign * z.sin};
        for (int k = 0; k < 2; ++k) {
          const double e = exact[k];
          const double got = element(y, k == 0 ? first : second);
          const double once = w.size == 4 ? static_cast<double>(static_cast<float>(e))
                                          : static_cast<double>(core::from_bfloat16(
                                                core::to_bfloat16(static_cast<float>(e))));
          const double half_ulp = std::ldexp(std::fabs(e), w.size == 4 ? -24 : -8);
          difference += (got - e) * (got - e);
          rounding += (once - e) * (once - e);
          sum += e * e;
          max_excess = std::max(max_excess, std::fabs(got - e) - half_ulp);
        }
      }
    }
  }
  return {std::sqrt(difference / sum), std::sqrt(rounding / sum), max_excess};
}

template <typename T>
__global__ void make_cos_sin(const std::uint64_t* phases, T* c, T* s, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const core::CosSin<T> z = core::cuda::cos_sin_on_device<T>(phases[i]);
  c[i] = z.cos;
  s[i] = z.sin;
}

/// How many of `count` random phases give bits that differ from the host's.
template <typename T>
int count_bit_differences(int count) {
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> phases(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < phases.size(); ++i) {
    phases[i] = i < 64 ? (std::uint64_t{1} << i) - (i % 2) : random();  // edges first
  }
  std::uint64_t* device_phases = nullptr;
  T* device = nullptr;
  const auto n = phases.size();
  check(cudaMalloc(reinterpret_cast<void**>(&device_phases), n * 8), "cudaMalloc");
  check(cudaMalloc(reinterpret_cast<void**>(&device), 2 * n * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(device_phases, phases.data(), n * 8, cudaMemcpyHostToDevice), "copy");
  make_cos_sin<T><<<(count + 255) / 256, 256>>>(device_phases, device, device + n, count);
  std::vector<T> got(2 * n);
  check(cudaMemcpy(got.data(), device, 2 * n * sizeof(T), cudaMemcpyDeviceToHost), "copy");
  check(cudaFree(device), "cudaFree");
  check(cudaFree(device_phases), "cudaFree");
  int differing = 0;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  for (std::size_t i = 0; i < n; ++i) {
    const core::CosSin<T> z = core::cos_sin<T>(phases[i]);
    differing += std::bit_cast<Bits>(z.cos) != std::bit_cast<Bits>(got[i]) ||
                 std::bit_cast<Bits>(z.sin) != std::bit_cast<Bits>(got[n + i]);
  }
  return differing;
}

}  // namespace accuracy
