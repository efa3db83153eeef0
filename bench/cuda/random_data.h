// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Random values, memory and tensor views.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "rotary/tensor.h"
#include "support/half.h"

namespace random_rotations {

using namespace rotary;            // NOLINT: programs
using namespace rotary::internal;  // NOLINT

inline int current_case = -1;

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "case %d, %s: %s\n", current_case, what, cudaGetErrorString(error));
  std::exit(1);
}

/// Bump allocator: host memory, and device memory of the same layout.
struct Arena {
  static constexpr std::size_t kBytes = std::size_t{160} << 20;
  std::vector<char> before = std::vector<char>(kBytes);
  std::vector<char> got = std::vector<char>(kBytes);
  char* device = nullptr;
  std::size_t used = 0;

  Arena() { check(cudaMalloc(reinterpret_cast<void**>(&device), kBytes), "cudaMalloc"); }
  char* take(std::int64_t bytes, std::size_t misalignment = 0) {
    used = (used + 255) / 256 * 256;
    char* at = before.data() + used + misalignment;
    used += static_cast<std::size_t>(bytes) + misalignment;
    if (used > kBytes) std::exit((std::fprintf(stderr, "arena\n"), 2));
    return at;
  }
};

/// Random choices from one seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t upto(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n)(engine_);
  }
  bool chance(int percent) { return upto(99) < percent; }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + upto(static_cast<std::int64_t>(list.size()) - 1));
  }
  double real() { return std::uniform_real_distribution<double>(-1.0, 1.0)(engine_); }

 private:
  std::mt19937_64 engine_;
};

inline void write_element(DType type, char* to, double value) {
  const auto put = [to](auto v) { std::memcpy(to, &v, sizeof(v)); };
  switch (type) {
    case DType::kFloat64:
      return put(value);
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kBFloat16:
      return put(to_bfloat16(static_cast<float>(value)));
    default:
      return put(to_float16(static_cast<float>(value)));
  }
}

/// Random elements, repeated with a prime period so that no two heads are equal.
inline void fill_elements(Draw& draw, DType type, char* from, std::int64_t count) {
  constexpr std::int64_t kPeriod = 65'521;
  const auto size = static_cast<std::int64_t>(size_of(type));
  for (std::int64_t i = 0; i < std::min(count, kPeriod); ++i) {
    write_element(type, from + i * size, 3.0 * draw.real());
  }
  for (std::int64_t i = kPeriod; i < count; i += kPeriod) {
    std::memcpy(from + i * size, from,
                static_cast<std::size_t>(std::min(kPeriod, count - i) * size));
  }
}

/// [batch, tokens, heads, head_dim] in one of several memory orders.
inline TensorView make_view(Draw& draw, Arena& arena, DType type, const Dims& shape, int order) {
  TensorView view{nullptr, type, 4, shape, {}, {}};
  const auto [b, t, h, d] = shape;
  const std::int64_t gap = order == 2 ? draw.of<std::int64_t>({1, 3, 8, 16}) : 0;
  const std::int64_t step = order == 3 ? 2 : 1;
  const std::int64_t width = d * step + gap;
  const auto size = static_cast<std::int64_t>(size_of(type));
  if (order == 1) {  // heads before tokens
    view.strides = {h * t * width, width, t * width, step};
  } else {
    view.strides = {t * h * width, h * width, width, step};
  }
  const std::int64_t count = b * t * h * width + 16;
  const std::int64_t misalignment = order == 2 && draw.chance(50) ? size * draw.upto(7) : 0;
  view.data = arena.take(count * size, static_cast<std::size_t>(misalignment));
  fill_elements(draw, type, static_cast<char*>(view.data), count);
  if (order == 4 && h > 0) {  // negative head stride
    view.data = static_cast<char*>(view.data) + (h - 1) * view.strides[2] * size;
    view.strides[2] = -view.strides[2];
  }
  return view;
}

}  // namespace random_rotations
