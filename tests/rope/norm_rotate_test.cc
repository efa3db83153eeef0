// Copyright 2026 The rotary authors.
// SPDX-License-Identifier: Apache-2.0

// Rope::norm_rotate against its definition: a norm in float32, rounded, then rotate().

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "rope/on_every_target.h"
#include "rope/rejects.h"
#include "rotary/norm.h"
#include "rotary/rope.h"
#include "support/half.h"

namespace rotary {
namespace {

constexpr std::int64_t kTokens = 9;
constexpr std::int64_t kHeads = 3;
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Memory of a type, by elements as floats.
class Memory {
 public:
  Memory(DType type, std::int64_t size)
      : type_(type), bytes_(static_cast<std::size_t>(size) * size_of(type)) {}

  float get(std::int64_t i) const {
    if (type_ == DType::kFloat32) return at<float>(i);
    const auto bits = at<std::uint16_t>(i);
    return type_ == DType::kBFloat16 ? internal::from_bfloat16(bits) : internal::from_float16(bits);
  }
  void set(std::int64_t i, float x) {
    if (type_ == DType::kFloat32) return put(i, x);
    put(i, type_ == DType::kBFloat16 ? internal::to_bfloat16(x) : internal::to_float16(x));
  }
  TensorView heads(std::int64_t head_dim) {
    return TensorView::contiguous(bytes_.data(), type_, {kTokens, kHeads, head_dim});
  }
  ConstTensorView weight() {
    return TensorView::contiguous(bytes_.data(), type_,
                                  {static_cast<std::int64_t>(bytes_.size() / size_of(type_))});
  }
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

Memory random(DType type, std::int64_t size, unsigned seed) {
  Memory memory(type, size);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (std::int64_t i = 0; i < size; ++i) memory.set(i, normal(generator));
  return memory;
}

Rope rope_of(std::int64_t head_dim, Pairing pairing) {
  return Rope(make_frequencies({.rotary_dim = head_dim / 4 * 2, .theta = 1e4}),
              {.head_dim = head_dim, .rotary_offset = 1, .pairing = pairing});
}

/// The sum of n squares as PyTorch forms it, element by element.
float sum_in_order(const std::vector<float>& x, std::size_t lanes) {
  const std::size_t n = x.size();
  if (n < lanes) lanes = 1;
  const std::size_t row = 4 * lanes;
  std::vector<float> sums(row);
  std::vector<float> aside(row);
  std::size_t i = 0;
  for (std::size_t rounds = 0; i + row <= n; i += row) {
    for (std::size_t k = 0; k < row; ++k) sums[k] += x[i + k] * x[i + k];
    if (++rounds % 16 != 0) continue;
    for (std::size_t k = 0; k < row; ++k) {
      aside[k] += sums[k];
      sums[k] = 0.0f;
    }
  }
  for (std::size_t k = 0; k < row; ++k) sums[k] += aside[k];
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) sums[k] += x[i + k] * x[i + k];
  }
  for (std::size_t k = lanes; k < row; ++k) sums[k % lanes] += sums[k];
  float sum = 0.0f;
  for (; i < n; ++i) sum += x[i] * x[i];
  for (std::size_t k = 0; k < lanes; ++k) sum += sums[k];
  return sum;
}

/// The norm of all heads of `in`, in the type of `out`.
void norm_heads_to(const Memory& in, const Memory* weight, const HeadNorm& norm,
                   std::int64_t head_dim, Memory& out) {
  std::vector<float> x(static_cast<std::size_t>(head_dim));
  for (std::int64_t h = 0; h < kTokens * kHeads; ++h) {
    for (std::int64_t i = 0; i < head_dim; ++i) {
      x[static_cast<std::size_t>(i)] = in.get(h * head_dim + i);
    }
    const float mean =
        sum_in_order(x, static_cast<std::size_t>(norm.sum_lanes)) / static_cast<float>(head_dim);
    const float scale = 1.0f / std::sqrt(mean + static_cast<float>(norm.eps));
    for (std::int64_t i = 0; i < head_dim; ++i) {
      float y = x[static_cast<std::size_t>(i)] * scale;
      if (weight != nullptr) {
        const float w = weight->get(i);
        y *= norm.kind == NormKind::kRmsOnePlus ? 1.0f + w : w;
      }
      out.set(h * head_dim + i, y);
    }
  }
}

TEST(NormRotate, HasTheBitsOfNormThenRotate) {
  on_every_target([](std::string_view) {
    for (const DType type : kTypes) {
      for (const std::int64_t head_dim : {7, 8, 24, 64, 72, 100, 128, 320}) {
        for (const int lanes : {4, 8, 16}) {
          for (const NormKind kind : {NormKind::kRms, NormKind::kRmsOnePlus}) {
            const bool half = lanes != 8;
            const Rope rope = rope_of(head_dim, half ? Pairing::kHalf : Pairing::kInterleaved);
            const HeadNorm norm{.kind = kind, .eps = 1e-5, .sum_lanes = lanes};
            const std::int64_t size = kTokens * kHeads * head_dim;
            Memory x = random(type, size, 1);
            Memory weight = random(type, head_dim, 2);
            Memory expected(type, size);
            norm_heads_to(x, half ? &weight : nullptr, norm, head_dim, expected);
            rope.rotate(expected.heads(head_dim), Positions::range(99'000));
            const ConstTensorView w = half ? weight.weight() : ConstTensorView{};
            Memory out(type, size);
            const Operand apart(x.heads(head_dim), out.heads(head_dim));
            rope.norm_rotate({{apart, w}}, norm, Positions::range(99'000));
            EXPECT_EQ(out.bytes(), expected.bytes()) << head_dim << " " << lanes;
            rope.norm_rotate({{x.heads(head_dim), w}}, norm, Positions::range(99'000));
            EXPECT_EQ(x.bytes(), expected.bytes()) << head_dim << " " << lanes << " in place";
          }
        }
      }
    }
  });
}

TEST(NormRotate, RoundsOnceInFloat32) {
  constexpr std::int64_t kHeadDim = 72;
  constexpr std::int64_t kSize = kTokens * kHeads * kHeadDim;
  const Rope rope = rope_of(kHeadDim, Pairing::kInterleaved);
  const HeadNorm norm{.rounding = NormRounding::kFloat32};
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    Memory x = random(type, kSize, 3);
    Memory weight = random(DType::kFloat32, kHeadDim, 4);
    Memory wide(DType::kFloat32, kSize);
    norm_heads_to(x, &weight, norm, kHeadDim, wide);
    rope.rotate(wide.heads(kHeadDim), Positions::range());
    Memory expected(type, kSize);
    for (std::int64_t i = 0; i < kSize; ++i) expected.set(i, wide.get(i));
    rope.norm_rotate({{x.heads(kHeadDim), weight.weight()}}, norm, Positions::range());
    EXPECT_EQ(x.bytes(), expected.bytes());
  }
}

TEST(NormRotate, WithoutNormItRotates) {
  constexpr std::int64_t kHeadDim = 16;
  const Rope rope = rope_of(kHeadDim, Pairing::kHalf);
  Memory x = random(DType::kBFloat16, kTokens * kHeads * kHeadDim, 5);
  Memory expected = x;
  rope.rotate(expected.heads(kHeadDim), Positions::range());
  rope.norm_rotate({Operand(x.heads(kHeadDim))}, {.kind = NormKind::kNone}, Positions::range());
  EXPECT_EQ(x.bytes(), expected.bytes());
}

TEST(NormRotate, RejectsBadArguments) {
  constexpr std::int64_t kHeadDim = 16;
  const Rope rope = rope_of(kHeadDim, Pairing::kHalf);
  Memory x = random(DType::kFloat32, kTokens * kHeads * kHeadDim, 6);
  Memory weight = random(DType::kFloat32, kHeadDim, 7);
  const Memory before = x;
  const auto rejected = [&](const NormOperand& operand, const HeadNorm& norm, const char* rule) {
    expect_rejected([&] { rope.norm_rotate({operand}, norm, Positions::range()); }, "norm_rotate",
                    rule);
  };
  const Operand heads = x.heads(kHeadDim);
  rejected(heads, {.eps = -1.0}, "eps must be finite and not negative");
  rejected(heads, {.eps = std::numeric_limits<double>::quiet_NaN()}, "eps must be finite");
  rejected(heads, {.sum_lanes = 5}, "sum_lanes must be 4, 8 or 16, got 5");
  ConstTensorView w = weight.weight();
  w.shape[0] = 8;
  rejected({heads, w}, {}, "a weight must be [16]");
  w = weight.weight();
  w.dtype = DType::kFloat64;
  rejected({heads, w}, {}, "float32, bfloat16 or float16");
  std::vector<double> wide(static_cast<std::size_t>(kTokens * kHeads * kHeadDim));
  const Operand doubles =
      TensorView::contiguous(wide.data(), DType::kFloat64, {kTokens, kHeads, kHeadDim});
  rejected(doubles, {}, "got float64");
  rejected(Operand(x.heads(8)), {}, "head_dim");
  EXPECT_EQ(x.bytes(), before.bytes());
}

}  // namespace
}  // namespace rotary
