// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Norms by their definition: element by element, in float32, with the sums of PyTorch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "rotary/norm.h"
#include "rotary/rope.h"
#include "support/half.h"

namespace rotary {

/// Memory of a type, by elements as floats.
class NormMemory {
 public:
  NormMemory(DType type, std::int64_t size)
      : type_(type), bytes_(static_cast<std::size_t>(size) * size_of(type)) {}

  static NormMemory random(DType type, std::int64_t size, unsigned seed, float offset = 0.0f) {
    NormMemory memory(type, size);
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(offset, 2.0f);
    for (std::int64_t i = 0; i < size; ++i) memory.set(i, normal(generator));
    return memory;
  }

  float get(std::int64_t i) const {
    if (type_ == DType::kFloat32) return at<float>(i);
    const auto bits = at<std::uint16_t>(i);
    return type_ == DType::kBFloat16 ? internal::from_bfloat16(bits) : internal::from_float16(bits);
  }
  void set(std::int64_t i, float x) {
    if (type_ == DType::kFloat32) return put(i, x);
    put(i, type_ == DType::kBFloat16 ? internal::to_bfloat16(x) : internal::to_float16(x));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size() / size_of(type_)); }
  DType type() const { return type_; }
  TensorView heads(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
    return TensorView::contiguous(bytes_.data(), type_, {tokens, heads, head_dim});
  }
  ConstTensorView row() { return TensorView::contiguous(bytes_.data(), type_, {size()}); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  template <typename T>
  T at(std::int64_t i) const {
    T x{};
    std::memcpy(&x, bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return x;
  }
  template <typename T>
  void put(std::int64_t i, T x) {
    std::memcpy(bytes_.data() + static_cast<std::size_t>(i) * sizeof(T), &x, sizeof(T));
  }

  DType type_;
  std::vector<unsigned char> bytes_;
};

/// The sum as PyTorch forms it: four vectors of `lanes` in turn, put aside after 16 rows, and again
/// after 256.
inline float sum_in_order(const std::vector<float>& x, std::size_t lanes) {
  const std::size_t n = x.size();
  if (n < lanes) lanes = 1;
  const std::size_t row = 4 * lanes;
  std::vector<float> sums(row);
  std::vector<float> aside(row);
  std::vector<float> further(row);
  const auto move = [row](std::vector<float>& from, std::vector<float>& to) {
    for (std::size_t k = 0; k < row; ++k) {
      to[k] += from[k];
      from[k] = 0.0f;
    }
  };
  std::size_t i = 0;
  for (std::size_t rounds = 0; i + row <= n; i += row) {
    for (std::size_t k = 0; k < row; ++k) sums[k] += x[i + k];
    ++rounds;
    if (rounds % 16 == 0) move(sums, aside);
    if (rounds % 256 == 0) move(aside, further);
  }
  move(aside, sums);
  move(further, sums);
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) sums[k] += x[i + k];
  }
  for (std::size_t k = lanes; k < row; ++k) sums[k % lanes] += sums[k];
  float sum = 0.0f;
  for (; i < n; ++i) sum += x[i];
  for (std::size_t k = 0; k < lanes; ++k) sum += sums[k];
  return sum;
}

/// The sum of squares as PyTorch's norms on CUDA form it: 128 columns of fours, a tree of 32, four
/// of these.
inline float sum_squares_of_warps(const std::vector<float>& x, float mean) {
  std::vector<float> columns(128);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& sum = columns[i / 4 % 128];
    sum = std::fma(x[i] - mean, x[i] - mean, sum);
  }
  const auto tree = [&](std::size_t first, std::size_t count, const auto& self) -> float {
    if (count == 1) return columns[first];
    for (std::size_t i = first; i < first + count / 2; ++i) columns[i] += columns[i + count / 2];
    return self(first, count / 2, self);
  };
  float warps[4];
  for (std::size_t w = 0; w < 4; ++w) warps[w] = tree(32 * w, 32, tree);
  return (warps[0] + warps[2]) + (warps[1] + warps[3]);
}

/// The norm of every `size` consecutive elements of `in`, in the type of `out`. Null: no weight, no
/// bias.
inline void norm_to(const NormMemory& in, const NormMemory* weight, const NormMemory* bias,
                    const HeadNorm& norm, std::int64_t size, NormMemory& out) {
  const auto lanes = static_cast<std::size_t>(norm.sum_lanes);
  std::vector<float> x(static_cast<std::size_t>(size));
  std::vector<float> terms(x.size());
  for (std::int64_t first = 0; first < in.size(); first += size) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = in.get(first + static_cast<std::int64_t>(i));
    }
    float mean = 0.0f;
    if (norm.kind == NormKind::kLayer) mean = sum_in_order(x, lanes) / static_cast<float>(size);
    for (std::size_t i = 0; i < x.size(); ++i) terms[i] = (x[i] - mean) * (x[i] - mean);
    const float squares = lanes == 32 ? sum_squares_of_warps(x, mean) : sum_in_order(terms, lanes);
    const float square = squares / static_cast<float>(size);
    const float scale = 1.0f / std::sqrt(square + static_cast<float>(norm.eps));
    for (std::int64_t i = 0; i < size; ++i) {
      float y = (x[static_cast<std::size_t>(i)] - mean) * scale;
      if (norm.rounding == NormRounding::kEveryStep) {
        out.set(first + i, y);
        y = out.get(first + i);
      }
      if (weight != nullptr) {
        const float w = weight->get(i);
        y *= norm.kind == NormKind::kRmsOnePlus ? 1.0f + w : w;
      }
      if (bias != nullptr) y += bias->get(i);
      out.set(first + i, y);
    }
  }
}

}  // namespace rotary
